"""Words that a search should write: clauses of phrases, followed in the text of every prefix.

The wanted words are a conjunction of clauses, each a phrase or several of which any one will do; other phrases may be forbidden. They are
looked for in the *text* of a prefix, not in its tokens: however a phrase is cut into tokens, it counts.

A phrase counts, with ``whole``, only between characters that are not part of a word. At the end of a prefix it counts for the time being:
the next token may make a longer word of it. So a forbidden phrase is there only when the character after it, or the end, has come: what
makes another word of it may still follow.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import torch

from grammars.errors import ConstraintError, VocabularyError

from .beam import best_children
from .frontier import Node, SearchResult, Space

if TYPE_CHECKING:
    from grammars.vocabulary import Vocabulary

__all__ = ["Phrases", "Tail", "Words"]

Phrases = Sequence[str | Sequence[str]]


class Tail(NamedTuple):
    """What of a text so far decides about words.

    Attributes:
        text: its last characters, folded where case is ignored: one more than the longest phrase has.
        rest: bytes of a character that is not complete.
        found: clauses that were found for good: bit ``i`` for clause ``i``.
        here: clauses that have a phrase that ends here.
        broken: whether a forbidden phrase is there for good.
    """

    text: str = ""
    rest: bytes = b""
    found: int = 0
    here: int = 0
    broken: bool = False


class Words:
    """The words of one search.

    Args:
        space: what is searched.
        wanted: a clause an entry: a phrase, or several of which any one will do.
        forbidden: phrases that must not occur.
        whole: a phrase counts only if no letter, digit or underscore stands before or after it.
        ignore_case: by simple case folding.
        vocabulary: what tokens write; ``None``: the vocabulary of the target's automaton.

    Attributes:
        sizes: of each clause the number of tokens of its shortest spelling.

    Raises:
        ConstraintError: nothing says what tokens write; there is no wanted phrase; one is empty or no ``str``; or the vocabulary cannot
            write a clause.
    """

    def __init__(
        self,
        space: Space,
        wanted: Phrases,
        forbidden: Sequence[str] = (),
        *,
        whole: bool = True,
        ignore_case: bool = True,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        automaton = space.target.automaton
        if vocabulary is None and automaton is None:
            raise ConstraintError("a search for words needs to know what tokens write: give a vocabulary, or the target a constraint")
        self.vocabulary: Vocabulary = vocabulary or automaton.vocabulary  # type: ignore[union-attr]
        self.space, self.whole, self.ignore_case = space, whole, ignore_case
        if isinstance(wanted, str) or isinstance(forbidden, str):
            raise ConstraintError("words are a list of phrases, not one string; write [...]")
        self.clauses = [(entry,) if isinstance(entry, str) else tuple(entry) for entry in wanted]
        if not self.clauses:
            raise ConstraintError("a search for words needs at least one word that the text should have")
        for phrase in (*(phrase for clause in self.clauses for phrase in clause), *forbidden):
            if not isinstance(phrase, str) or not phrase:
                raise ConstraintError(f"a word is a str that is not empty, not {phrase!r}")
        self._silent = frozenset(self.vocabulary.eos_token_ids) | frozenset(self.vocabulary.special_token_ids)
        self._wanted = [(self._fold(phrase), 1 << i) for i, clause in enumerate(self.clauses) for phrase in dict.fromkeys(clause)]
        self._forbidden = [self._fold(phrase) for phrase in forbidden]
        self._reach = 1 + max(len(phrase) for phrase in [*(phrase for phrase, _ in self._wanted), *self._forbidden])
        self.all = (1 << len(self.clauses)) - 1
        self.spell = lru_cache(maxsize=1 << 12)(self._spell)
        self.sizes = [self._size(clause) for clause in self.clauses]
        self._tails: dict[int, Tail] = {}
        self._step = lru_cache(maxsize=1 << 16)(self._step_uncached)

    def _size(self, clause: tuple[str, ...]) -> int:
        sizes = [len(tokens) for phrase in clause for tokens in (self.spell(phrase), self.spell(" " + phrase)) if tokens]
        if not sizes:
            raise ConstraintError(f"no tokens of the vocabulary can write {' or '.join(map(repr, clause))}, which the text should have")
        return min(sizes)

    def _fold(self, text: str) -> str:
        return "".join(map(_folded, text)) if self.ignore_case else text

    def _spell(self, text: str) -> tuple[int, ...]:
        """The tokens that write ``text``; none where the vocabulary cannot."""
        try:
            return tuple(self.vocabulary.encode(text.encode()))
        except (VocabularyError, UnicodeEncodeError):
            return ()

    # ------------------------------------------------------------ prefixes
    def tail(self, node: Node) -> Tail:
        """Of a node."""
        missing = []
        at: Node | None = node
        while at is not None and at.number not in self._tails:
            missing.append(at)
            at = at.parent
        tail = Tail() if at is None else self._tails[at.number]
        for each in reversed(missing):
            tail = self._step(tail, each.tokens[-1]) if each.tokens else Tail()
            self._tails[each.number] = tail
        return tail

    def met(self, node: Node) -> int:
        """The clauses that the text of the node has: bit ``i`` for clause ``i``."""
        tail = self.tail(node)
        return tail.found | tail.here

    def count(self, node: Node) -> int:
        """How many clauses it has."""
        return self.met(node).bit_count()

    def met_after(self, node: Node, token: int) -> int:
        """As :meth:`met`, of the node's child."""
        tail = self._step(self.tail(node), token)
        return tail.found | tail.here

    def covered(self, node: Node, token: int | None = None) -> int:
        """Tokens of wanted phrases that a node, or its child by ``token``, has: all of each clause it has, and those of one under way."""
        tail = self.tail(node) if token is None else self._step(self.tail(node), token)
        met = tail.found | tail.here
        partly = 0
        for phrase, bit, at in self._under_way(tail):
            if not met & bit:
                size = self.sizes[bit.bit_length() - 1]
                partly = max(partly, min(size - 1, size - len(self.spell(phrase[at:]) or phrase)))
        return sum(size for i, size in enumerate(self.sizes) if met >> i & 1) + partly

    def forbids(self, node: Node, token: int) -> bool:
        """Whether a forbidden phrase is in the text of the node's child for good."""
        return bool(self._forbidden) and self._step(self.tail(node), token).broken

    def _step_uncached(self, tail: Tail, token: int) -> Tail:
        """After one more token."""
        if token in self._silent or token >= len(self.vocabulary.tokens):
            if token not in self.space.target.ends:
                return tail
            return tail._replace(found=tail.found | tail.here, here=0, broken=tail.broken or self._stands(tail.text))
        data = tail.rest + self.vocabulary.tokens[token]
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        new = decoder.decode(data)
        rest = decoder.getstate()[0]
        text = tail.text + self._fold(new)
        found, here, before = tail.found, 0, len(tail.text)
        for phrase, bit in self._wanted:
            if not found & bit:
                for end in self._ends_of(phrase, text, before):
                    if end < len(text) or (not self.whole and not rest):
                        found |= bit
                    else:
                        here |= bit
        broken = tail.broken or any(end < len(text) for phrase in self._forbidden for end in self._ends_of(phrase, text, before))
        return Tail(text[-self._reach :], rest, found, here & ~found, broken or (not self.whole and self._stands(text)))

    def _ends_of(self, phrase: str, text: str, before: int) -> list[int]:
        """Where ``phrase`` ends in ``text``, from position ``before`` on; whole words only, where those count."""
        ends, at = [], text.find(phrase, max(0, before - len(phrase)))
        while at >= 0:
            end = at + len(phrase)
            if not self.whole or not (_is_word(text[at - 1 : at]) or _is_word(text[end : end + 1])):
                ends.append(end)
            at = text.find(phrase, at + 1)
        return ends

    def _stands(self, text: str) -> bool:
        """Whether a forbidden phrase stands at the end."""
        return any(text.endswith(p) and not (self.whole and _is_word(text[: -len(p)][-1:])) for p in self._forbidden)

    # ------------------------------------------------------------ what writes them
    def _under_way(self, tail: Tail) -> Iterable[tuple[str, int, int]]:
        """Wanted phrases (as folded) that the text ends within, their clause's bit, and how many characters are there."""
        for phrase, bit in self._wanted:
            for at in range(min(len(phrase) - 1, len(tail.text)), 0, -1):
                if tail.text.endswith(phrase[:at]) and not (self.whole and _is_word(tail.text[:-at][-1:])):
                    yield phrase, bit, at
                    break

    def next_tokens(self, node: Node) -> list[int]:
        """Tokens that go on with a phrase under way, or else begin one, of clauses that are not met; ascending."""
        tail = self.tail(node)
        met = tail.found | tail.here
        if met == self.all:
            return []
        texts = [self._as_given(phrase, bit)[at:] for phrase, bit, at in self._under_way(tail) if not met & bit and self._begun(phrase, at)]
        if not texts:
            phrases = [phrase for i, clause in enumerate(self.clauses) if not met >> i & 1 for phrase in clause]
            if not (self.whole and _is_word(tail.text[-1:])):
                texts += phrases
            if not tail.text and self.ignore_case:
                texts += [phrase[0].upper() + phrase[1:] for phrase in phrases]
            if not tail.text.endswith(" "):
                texts += [" " + phrase for phrase in phrases]
            texts += [self._as_given(phrase, bit)[at:] for phrase, bit, at in self._under_way(tail) if not met & bit]
        return sorted({self.spell(text)[0] for text in texts if self.spell(text)})

    def possible(self, node: Node, row: torch.Tensor) -> list[int]:
        """Of :meth:`next_tokens` those that the row allows, and that write nothing forbidden."""
        return [token for token in self.next_tokens(node) if float(row[token]) > -torch.inf and not self.forbids(node, token)]

    def inside(self, node: Node, token: int) -> bool:
        """Whether the text of the node's child ends within a phrase that it does not have, at least a token of which is there."""
        tail = self._step(self.tail(node), token)
        met = tail.found | tail.here
        return any(not met & bit and self._begun(phrase, at) for phrase, bit, at in self._under_way(tail))

    def _as_given(self, phrase: str, bit: int) -> str:
        return next(given for given in self.clauses[bit.bit_length() - 1] if self._fold(given) == phrase)

    def _begun(self, phrase: str, at: int) -> bool:
        """Whether ``at`` characters are a token of the phrase or more, not a letter or two that another word begins with as well."""
        spellings = [self.spell(phrase), self.spell(" " + phrase)]
        rest = len(self.spell(phrase[at:]) or phrase)
        return any(rest < len(spelling) for spelling in spellings)

    # ------------------------------------------------------------ what a search may do
    def only_when_met(self, nodes: Sequence[Node], rows: torch.Tensor) -> torch.Tensor:
        """``rows`` of :meth:`Space.rows` without ends of texts that lack a clause, where anything else may follow; changed in place."""
        ends = [token for token in self.space.target.ends if token < rows.shape[1]]
        for node, row in zip(nodes, rows):
            if self.met(node) != self.all:
                kept = row[ends].clone()
                row[ends] = -torch.inf
                if bool((row == -torch.inf).all()):
                    row[ends] = kept
        return rows

    def best(self, node: Node, row: torch.Tensor, k: int) -> list[tuple[int, float]]:
        """The ``k`` most probable tokens of a row that write nothing forbidden, with their log-probabilities, best first."""
        found: list[tuple[int, float]] = []
        wanted = k
        while True:
            values, tokens = row.topk(min(wanted, len(row)))
            pairs = [(t, v) for t, v in zip(tokens.tolist(), values.tolist()) if v > -torch.inf]
            found = [(token, value) for token, value in pairs if not self.forbids(node, token)]
            if len(found) >= k or len(pairs) < wanted or wanted >= len(row):
                return found[:k]
            wanted *= 4

    def children(self, beam: Sequence[Node], rows: torch.Tensor, k: int) -> list[tuple[int, int]]:
        """The ``k`` best children of a beam that write nothing forbidden, as (row, token), best first."""
        scores = rows.new_tensor([[node.score] for node in beam]) + rows
        wanted = k
        while True:
            found = best_children(scores, wanted)
            fine = [(row, token) for row, token, _ in found if not self.forbids(beam[row], token)]
            if len(fine) >= k or len(found) < wanted:
                return fine[:k]
            wanted *= 4

    def conclude(
        self,
        texts: Iterable[Node],
        rest: Iterable[Node],
        name: str,
        value: Callable[[Node], float],
        *,
        complete: bool,
        details: dict[str, float] | None = None,
    ) -> SearchResult:
        """The result of a search: finished texts with the most clauses first, then by ``value``; the unfinished behind them.

        Where there is no finished text, of what is unfinished the first that can be completed without a forbidden word is.
        """
        listed = {node.tokens: node for node in texts}
        running = sorted({node.tokens: node for node in rest}.values(), key=lambda node: (-self.count(node), -value(node), node.number))
        if not any(node.finished for node in listed.values()) and self.space.ending != "cut" and self.space.target.automaton is not None:
            closed = (self.space.close(node) for node in running)
            whole = next((node for node in closed if node is not None and not self.tail(node).broken), None)
            running = [] if whole is None else running
            listed = {} if whole is None else {whole.tokens: whole}
        result = self.space.result(listed.values(), name, complete=complete, rest=running, scores=value, details=details)
        result.found.sort(key=lambda found: (not found.finished, -self.count(found.node), -found.score, found.node.number))
        result.details["met"] = float(self.count(result.found[0].node)) if result.found else 0.0
        return result


@lru_cache(maxsize=1 << 12)
def _folded(character: str) -> str:
    for folded in (character.casefold(), character.lower()):
        if len(folded) == 1:
            return folded
    return character


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
