"""Words that a text must have, or must not have: :class:`MustInclude` and :class:`MustNotInclude`.

Both are exact: every token that some text of the language begins with is allowed, and no other. They compose like all regular
constraints::

    MustInclude(["dog", "catch", "frisbee"], inflections=english_inflections) & Regex(r"[^\\n]{20,200}\\.")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from .constraint import Constraint
from .errors import ConstraintError
from .rules import Rule, StaticRule, finish, lexeme

if TYPE_CHECKING:
    from .regex.expr import Pool
    from .word_automaton import Words

__all__ = ["MustInclude", "MustNotInclude", "english_inflections"]

Inflections = Mapping[str, Iterable[str]] | Callable[[str], Iterable[str]]

_VOWELS = "aeiou"
_SIBILANTS = ("s", "x", "z", "ch", "sh")


def english_inflections(word: str) -> tuple[str, ...]:
    """A word and its regular English forms in ``-s``, ``-ed`` and ``-ing``, spelt by rule (``try``: ``tries``, ``stop``: ``stopped``).

    By spelling alone: irregular forms are not known, and forms that the word may not have are harmless here, since any one counts.
    """
    if not word or not word[-1].isalpha():
        return (word,)
    last, before = word[-1], word[-2:-1]
    if last == "y" and before and before not in _VOWELS:
        return (word, word[:-1] + "ies", word[:-1] + "ied", word + "ing")
    if word.endswith("ie"):
        return (word, word + "s", word + "d", word[:-2] + "ying")
    if last == "e":
        return (word, word + "s", word + "d", (word if before in ("e", "o", "y") else word[:-1]) + "ing")
    plurals = [word + "s", word + "es"] if last == "o" else [word + ("es" if word.endswith(_SIBILANTS) else "s")]
    forms = [word, *plurals, word + "ed", word + "ing"]
    if last not in _VOWELS + "hwxy" and len(word) > 2 and before in _VOWELS and word[-3] not in _VOWELS:
        forms += [word + last + "ed", word + last + "ing"]
    return tuple(forms)


class _Lexical(Constraint):
    is_regular = True

    def __init__(self, groups: Sequence[tuple[str, ...]], whole: bool, ignore_case: bool, wanted: bool) -> None:
        self.whole, self.ignore_case = whole, ignore_case
        self._groups, self._wanted = tuple(groups), wanted
        for group in groups:
            for word in group:
                _check_word(word)

    def __repr__(self) -> str:
        shown = [group[0] if len(group) == 1 else list(group) for group in self._groups]
        return f"{type(self).__name__}({shown!r}, whole={self.whole}, ignore_case={self.ignore_case})"

    def regular(self, pool: Pool) -> int:
        """See :meth:`Constraint.regular`.

        Raises:
            ConstraintError: a word, or what must stand beside it, cannot be written.
        """
        from .word_automaton import Words, words_expr

        words = Words(self._groups, self.whole, self.ignore_case, self._wanted)
        writable = [self._writable(pool, words, g) for g in range(len(self._groups))]
        if not self._wanted:
            writable = [group for group in writable if group]
        for group, given in zip(writable, self._groups):
            if not group:
                raise ConstraintError(f"no token of the vocabulary can write {' or '.join(map(repr, given))}, which the text must have")
        if not writable:
            return pool.any_text()
        if self.whole:
            self._check_neighbours(pool)
        return words_expr(pool, Words(tuple(writable), self.whole, self.ignore_case, self._wanted))

    @staticmethod
    def _writable(pool: Pool, words: Words, group: int) -> tuple[str, ...]:
        members = zip(words.groups[group], words.places(group))
        return tuple(w for w, places in members if all(any(pool.literal(chr(p).encode()) for p in points) for points in places))

    def _check_neighbours(self, pool: Pool) -> None:
        """A whole word needs the possibility of something beside it: what ends it, or (where it must not be) what makes it a longer one."""
        from .word_automaton import word_characters

        if pool.writable is None or all(c in pool.writable for c in " a"):
            return
        beside = pool.writable & word_characters() if not self._wanted else pool.writable - word_characters()
        if not beside:
            what = "but parts of words" if self._wanted else "that is part of a word"
            raise ConstraintError(f"the vocabulary can write nothing {what}, so whole words cannot be told; use whole=False")

    def build(self, pool: Pool) -> Rule:
        name = "a text with all words" if self._wanted else "a text without the words"
        return finish(StaticRule("words").define(lexeme(pool, self.regular(pool), name=name)))


class MustInclude(_Lexical):
    """Any text in which every one of some words occurs, in any order, anywhere, any number of times.

    Args:
        words: each a word (or phrase), or several of which any one will do.
        inflections: further forms of a word that count as well: a mapping or a function (:func:`english_inflections`, say) from each given
            word to its forms.
        whole: a word counts only if no letter, digit or underscore (of any script) stands before or after it; otherwise it may be a part of
            another one.
        ignore_case: by simple case folding.

    Only the sets of words that a text goes through are ever made, so a dozen words cost no more than their letters. What words overlap
    in (``whole=False``, phrases) counts for all of them.

    Raises:
        ConstraintError: there is no word, or one is empty, not a ``str``, or holds a lone surrogate.
    """

    def __init__(
        self,
        words: Iterable[str | Iterable[str]],
        inflections: Inflections | None = None,
        *,
        whole: bool = True,
        ignore_case: bool = True,
    ) -> None:
        if isinstance(words, str):
            raise ConstraintError("MustInclude takes a list of words, not one string; write MustInclude([...])")
        groups = []
        for entry in words:
            group = [entry] if isinstance(entry, str) else list(entry)
            for word in list(group):
                _check_word(word)
                group.extend(_forms(word, inflections))
            if not group:
                raise ConstraintError("a word of MustInclude is a list without a form")
            groups.append(tuple(dict.fromkeys(group)))
        if not groups:
            raise ConstraintError("MustInclude needs at least one word")
        super().__init__(list(dict.fromkeys(groups)), whole, ignore_case, True)

    @property
    def words(self) -> tuple[tuple[str, ...], ...]:
        """Of each word its forms, the given one first."""
        return self._groups


class MustNotInclude(_Lexical):
    """Any text in which none of some words occurs.

    Args:
        words: words or phrases.
        whole, ignore_case: see :class:`MustInclude`; with ``whole``, ``class`` does not forbid ``classical``.

    Raises:
        ConstraintError: there is no word, or one is empty, not a ``str``, or holds a lone surrogate.
    """

    def __init__(self, words: Iterable[str], *, whole: bool = True, ignore_case: bool = True) -> None:
        if isinstance(words, str):
            raise ConstraintError("MustNotInclude takes a list of words, not one string; write MustNotInclude([...])")
        groups = [(word,) for word in dict.fromkeys(words)]
        if not groups:
            raise ConstraintError("MustNotInclude needs at least one word")
        super().__init__(groups, whole, ignore_case, False)

    @property
    def words(self) -> tuple[str, ...]:
        """The words, each once."""
        return tuple(group[0] for group in self._groups)


def _forms(word: str, inflections: Inflections | None) -> Iterable[str]:
    if inflections is None:
        return ()
    return inflections.get(word, ()) if isinstance(inflections, Mapping) else inflections(word)


def _check_word(word: str) -> None:
    if not isinstance(word, str):
        raise ConstraintError(f"a word is a str, not {type(word).__name__} ({word!r:.80})")
    if not word:
        raise ConstraintError("a word must not be empty: every text has the empty word")
    try:
        word.encode()
    except UnicodeEncodeError:
        raise ConstraintError(f"the word {word[:80]!r} holds a lone surrogate, which UTF-8 cannot write") from None
