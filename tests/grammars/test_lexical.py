"""Words that must occur, or must not: against ``re`` on random texts, and against all texts up to a length."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence

import pytest

from grammars import Choice, Constraint, Gbnf, Intersection, JsonSchema, MustInclude, MustNotInclude, Regex, Vocabulary, english_inflections
from grammars.automaton import Automaton
from grammars.errors import ConstraintError
from grammars.lexical import _Lexical
from grammars.word_automaton import State, Words, _At

BYTES = Vocabulary([bytes([b]) for b in range(256)] + [b""], eos_token_ids=[256])
PIECES = [b"a", b"b", b" ", b"ab", b" a", b"b a", b"ba", b"aa", b"-", b"c", b"c b", b""]
TOY = Vocabulary(PIECES, eos_token_ids=[len(PIECES) - 1])


def has(text: str, forms: Sequence[str], whole: bool, ignore_case: bool) -> bool:
    body = "|".join(map(re.escape, forms))
    pattern = rf"(?<!\w)(?:{body})(?!\w)" if whole else body
    return re.search(pattern, text, re.IGNORECASE if ignore_case else 0) is not None


def fits(constraint: _Lexical, text: str) -> bool:
    found = [has(text, forms, constraint.whole, constraint.ignore_case) for forms in constraint._groups]
    return all(found) if isinstance(constraint, MustInclude) else not any(found)


def accepts(automaton: Automaton, text: str) -> bool:
    return automaton.accepts(automaton.advance_bytes(automaton.start, text.encode()))


WORDS: list[list[str | list[str]]] = [
    ["a"],
    ["ab", "ba"],
    ["ab", "abab", "b"],
    [["a", "ab"], ["b", "ab"]],
    ["ab a", "a b"],
    ["é", "日本", "ks"],
    ["straße", ["k", "ss"]],
    ["a+", "+b"],
    ["_a", " a "],
    ["aab", "aba", ["baa", "b"]],
    ["🙂a", "a🙂"],
]
LETTERS = ["a", "b", "A", "B", " ", "_", "+", "é", "É", "日", "本", "k", "K", "K", "s", "ſ", "🙂", "ß", "ẞ", "-"]
LETTERS += ["1", "ab", "straße", "\n", "\u0301"]


@pytest.mark.parametrize("words", WORDS, ids=str)
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("ignore_case", [True, False])
def test_random_texts_against_re(words: list[str | list[str]], whole: bool, ignore_case: bool) -> None:
    source = random.Random(f"{words}{whole}{ignore_case}")
    flat = [form for entry in words for form in ([entry] if isinstance(entry, str) else entry)]
    for constraint in (
        MustInclude(words, whole=whole, ignore_case=ignore_case),
        MustNotInclude(flat, whole=whole, ignore_case=ignore_case),
    ):
        automaton, verdicts = constraint.compile(BYTES), set()
        for n in range(45):
            pieces = [source.choice(LETTERS if source.random() < 0.5 else [*flat, " "]) for _ in range(source.randrange(9))]
            if n % 3 == 0:
                pieces[1:1] = [c for word in source.sample(flat, len(flat)) for c in (word, source.choice(" -"))]
            text = "".join(pieces)
            expected = fits(constraint, text)
            verdicts.add(expected)
            assert accepts(automaton, text) == expected, text
        assert verdicts == {True, False}


def texts(alphabet: str, longest: int) -> Iterator[str]:
    for size in range(longest + 1):
        yield from map("".join, itertools.product(alphabet, repeat=size))


SMALL: list[tuple[Constraint, Constraint | None]] = [
    (MustInclude(["ab", "c"]), Regex("[abc -]{0,5}")),
    (MustInclude(["ab", "c"], whole=False), Regex("[abc -]{0,5}")),
    (MustInclude([["a", "b a"], "c"]), Regex("[abc]{1,2}( [abc]+)*")),
    (MustInclude(["aba", "ba"], whole=False), Regex("[ab]*c")),
    (MustNotInclude(["ab", "c"]), Regex("[abc -]{0,5}")),
    (MustNotInclude(["aa", "b", "c b"], whole=False), Regex("[abc -]{2,5}")),
    (MustNotInclude(["a", "b"]), Regex("[ab ]{1,4}")),
    (MustInclude(["a"]), Choice(["a-b", "b a", "ab", "ba", "c", "a"])),
]


@pytest.mark.parametrize(("words", "other"), SMALL, ids=str)
def test_masks_of_an_intersection_are_exact(words: _Lexical, other: Constraint) -> None:
    """Against all texts of at most six characters: a token is allowed if and only if a text of the language begins with it."""
    automaton = (words & other).compile(TOY)
    whole = other.compile(TOY)
    language = {text for text in texts("abc -", 6) if fits(words, text) and accepts(whole, text)}
    endless = isinstance(other, Regex) and other.pattern.rstrip("c").endswith("*")
    longest = 2 if endless else 6  # of the prefixes that are looked at: all that is said of them is among the texts
    prefixes = {text[:n] for text in language for n in range(len(text) + 1)}
    assert len(language) > 2
    todo: list[tuple[str, int]] = [("", automaton.start)]
    seen = 0
    while todo:
        text, state = todo.pop()
        seen += 1
        assert automaton.accepts(state) == (text in language), text
        mask = automaton.mask(state)
        for token, piece in enumerate(PIECES[:-1]):
            longer = text + piece.decode()
            allowed = bool(mask[token >> 5] >> (token & 31) & 1)
            if len(longer) <= longest:
                assert allowed == (longer in prefixes), longer
                if allowed and seen < 400:
                    todo.append((longer, automaton.advance(state, token)))
    assert seen >= 8


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    "words", [["ab", "c"], ["ab", "ba"], ["aab", "aba", "b"], [["ab", "c"], ["ba", "c"]], ["a", "b a"], ["abc", "bca", "cab"]], ids=str
)
def test_shortest_completions(words: list[str | list[str]], whole: bool) -> None:
    """Against all texts of at most six characters."""
    constraint = MustInclude(words, whole=whole, ignore_case=False)
    automaton, checked = constraint.compile(TOY), 0
    best: dict[str, int] = {}
    for text in texts("abc ", 6):
        if fits(constraint, text):
            for n in range(len(text) + 1):
                best.setdefault(text[:n], len(text) - n)
    for start in ("", "a", "b", "ab", "ba", "b ", "a b", "ca"):
        state = automaton.advance_bytes(automaton.start, start.encode())
        found = TOY.decode(automaton.shortest_completion(state)).decode()
        assert fits(constraint, start + found)
        if start in best:
            checked += 1
            assert len(found) == best[start], (start, found)
        else:
            assert len(start + found) > 6
    assert checked or whole


@pytest.mark.parametrize(
    ("groups", "whole", "exact"),
    [
        ((("ab",), ("c",), ("ba", "cc")), True, True),
        ((("ab",), ("ba",)), False, True),
        ((("aab",), ("aba",), ("bb",)), False, True),
        ((("abc",), ("b",), ("ca", "x")), False, False),
        ((("a b",), ("b c",), ("c",)), True, False),
        ((("a", "bb"), ("a", "cc")), True, False),
        ((("é",), ("日a",)), False, True),
        (tuple((c + "a",) for c in "bcdefghijklmnop"[:14]), False, False),
    ],
    ids=str,
)
def test_lower_bounds_hold(groups: tuple[tuple[str, ...], ...], whole: bool, exact: bool) -> None:
    """The bound that guides searches never exceeds the bytes that are really left."""
    words = Words(groups, whole, False, True)
    order, moves = [State()], {}
    known = {State()}
    for state in order:
        found = words.moves(state)
        sizes = dict.fromkeys(found.ascii, 1)
        for after, size in [*((s, len(chr(p).encode())) for p, s in found.points.items()), *((s, 2) for s in found.rest.values())]:
            sizes.setdefault(after, size)
        moves[state] = sizes
        if not words.accepts(state) and len(order) < 3000:
            order.extend(after for after in sizes if after not in known)
            known.update(sizes)
    left = {state: 0 for state in order if words.accepts(state)}
    todo = list(order) if len(order) < 3000 else []
    for _ in range(40):
        for state in todo:
            ways = [left[after] + size for after, size in moves[state].items() if after in left]
            if ways and not words.accepts(state):
                left[state] = min(ways)
    assert len(order) >= 6
    assert all(words.least(state) <= left[state] for state in left)
    assert not exact or all(words.least(state) == left[state] for state in order)
    if not todo:
        assert 14 < words.least(State()) <= 28


DOZEN = ["dog", "frisbee", "catch", "throw", "park", "grass", "run", "boy", "jump", "sun", "tree", "water"]


def test_a_dozen_words_are_made_by_need() -> None:
    constraint = MustInclude(DOZEN, inflections=english_inflections)
    automaton = constraint.compile(BYTES)
    text = "The boys threw a frisbee; dogs were running, catching, jumping on grass in the park. Throwing by trees and water in the Sun"
    state = automaton.start
    for byte in text.encode():
        automaton.mask(state)
        state = automaton.advance(state, byte)
    assert automaton.accepts(state) and not automaton.accepts(automaton.advance_bytes(automaton.start, text[:-4].encode()))
    made = sum(isinstance(args[0], _At) for args in automaton._lexer.pool.args if args)
    assert made < 2500  # there are 4096 sets of words, each with hundreds of places in words
    end = BYTES.decode(automaton.shortest_completion(automaton.start)).decode()
    assert len(end) == len(" ".join(DOZEN)) and fits(constraint, end)


def test_inflections() -> None:
    forms = {
        "run": {"runs", "running"},
        "try": {"tries", "tried", "trying"},
        "play": {"plays", "played"},
        "dance": {"dances", "danced", "dancing"},
        "stop": {"stopped", "stopping", "stops"},
        "watch": {"watches"},
        "go": {"goes", "going"},
        "photo": {"photos"},
        "tie": {"ties", "tied", "tying"},
        "see": {"seeing"},
        "fix": {"fixes", "fixed"},
    }
    for word, some in forms.items():
        found = english_inflections(word)
        assert found[0] == word and some <= set(found), found
    assert english_inflections("C++") == ("C++",)
    automaton = MustInclude(["go", "leaf"], inflections={"go": ["went", "gone"], "leaf": ["leaves"]}).compile(BYTES)
    assert accepts(automaton, "he went, and the Leaves fell") and not accepts(automaton, "he went")
    assert MustInclude([["go", "run"]], inflections=lambda w: [w + "s"]).words == (("go", "run", "gos", "runs"),)


def test_combinations() -> None:
    sentence = MustInclude(["dog", "park"]) & Regex(r"[A-Z][a-z ]{5,40}\.") & MustNotInclude(["cat"])
    automaton = sentence.compile(BYTES)
    assert isinstance(sentence, Intersection) and len(sentence.parts) == 3
    assert accepts(automaton, "The dog ran in a park.")
    for text in ("The dog ran.", "The dog and cat in a park.", "the dog ran in a park.", "Dogs in a park."):
        assert not accepts(automaton, text)
    quoted = ('"' + (MustInclude(["b"], whole=False) & Regex('[^"]*')) + '"').compile(BYTES)
    assert accepts(quoted, '"abc"') and not accepts(quoted, '"ac"') and not accepts(quoted, '"ab"c"')
    parts = ("ab" & (Choice(["a", "ab"]) + Regex("b?"))).compile(BYTES)
    assert accepts(parts, "ab") and not accepts(parts, "a")
    either = (Regex("a+") | Choice(["b"])).repeat(1, 2) & Regex("..") & ("a" + Regex(".").optional())
    automaton = either.compile(BYTES)
    assert [t for t in texts("ab", 3) if accepts(automaton, t)] == ["aa", "ab"]


def test_what_cannot_be() -> None:
    with pytest.raises(ConstraintError, match="language is empty"):
        (MustInclude(["dog"]) & Regex("[a-c]*")).compile(BYTES)
    with pytest.raises(ConstraintError, match="language is empty"):
        (MustInclude(["a"]) & MustNotInclude(["A"])).compile(BYTES)
    for other in (JsonSchema({"type": "object"}), Gbnf('root ::= "a" root?')):
        with pytest.raises(ConstraintError, match="no regular language"):
            MustInclude(["a"]) & other
        with pytest.raises(ConstraintError, match="no regular language"):
            other.regular(BYTES.lexer().pool)
    narrow = Vocabulary([b"a", b"b", b""], eos_token_ids=[2])
    with pytest.raises(ConstraintError, match="can write 'c'"):
        MustInclude(["c"], whole=False).compile(narrow)
    with pytest.raises(ConstraintError, match="whole=False"):
        MustInclude(["a"]).compile(narrow)
    with pytest.raises(ConstraintError, match="whole=False"):
        MustNotInclude([" "]).compile(Vocabulary([b" ", b"-", b""], eos_token_ids=[2]))
    assert accepts(MustInclude([["c", "b"]], whole=False).compile(narrow), "ab")
    free = MustNotInclude(["c"]).compile(narrow)
    assert accepts(free, "abba")


@pytest.mark.parametrize(
    ("words", "reason"),
    [("dog", "not one string"), ([], "at least one"), ([""], "empty"), ([3], "is a str|not iterable"), (["\ud800"], "surrogate")],
)
def test_refusals(words: object, reason: str) -> None:
    for kind in (MustInclude, MustNotInclude):
        with pytest.raises((ConstraintError, TypeError), match=reason):
            kind(words)  # type: ignore[operator]


def test_more_refusals() -> None:
    with pytest.raises(ConstraintError, match="without a form"):
        MustInclude([[]])
    with pytest.raises(ConstraintError, match="empty"):
        MustInclude(["a"], inflections={"a": [""]})
    with pytest.raises(ConstraintError, match="at least one part"):
        Intersection([])
    assert repr(MustInclude(["a", ["b", "c"]])) == "MustInclude(['a', ['b', 'c']], whole=True, ignore_case=True)"
    assert repr(MustNotInclude(["a"]) & "b").startswith("MustNotInclude(['a'], ")
