"""Token masks against brute force, over awkward vocabularies, whatever was computed before; and the segments that masks are made of."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import grammars.segments
from grammars import Gbnf, JsonSchema, Lark, Regex, Vocabulary
from grammars.automaton import Automaton
from grammars.constraint import Constraint
from grammars.errors import ConstraintError, LimitError, VocabularyError
from grammars.lexer import Lexer
from grammars.limits import Limits
from grammars.regex.charset import CharSet
from grammars.segments import Segment
from grammars.strings import JsonEncoder, any_text, json_string, text_except

# Tokens that cross lexemes, runs of blanks, structure in the middle of words, pieces of characters, escapes and halves of them.
AWKWARD = [
    b"aa", b"ab", b"abc", b"aaa", b"aab", b"a-a", b"a-", b"-a", b"-aaa-", b"aaa-aaa", b"a\n", b"\na", b"--",
    b'"a', b'a"', b'"a"', b'":', b'":"', b'": "', b'","', b'", "', b'",\n  "', b'a":1,"b', b'a":"b","', b'"}', b'"}]', b'"]', b'{"',
    b'{"a":', b'[{"',
    b'},{"', b"1,", b"1,2", b"1]", b"1}", b"0.", b"0e", b"12", b"-1", b"true", b"null,", b'null,"', b"alse", b"[[", b"]]", b"[]", b"{}",
    b"],[", b"[1,",
    b'["a","a', b'a","ab', b"1,1", b"1,1]", b'"b":2', b'b","a":', b'"ab":{"',
    b" ", b"  ", b"   ", b"    ", b"        ", b"\n", b"\n\n", b"\n  ", b" \n \n ", b'  "', b'"  ', b" a", b"a ", b" : ", b":  ", b", ",
    b" ,  ", b"   1",
    b"\xc3", b"\xa9", b"\xc3\xa9", b"n\xc3", b"\xa9\"", b"\xe2\x82", b"\x82\xac", b"\xac\"", b"\xf0\x9d", b"\x92\xb3",
    b"\xf0\x9d\x92\xb3a", b"\xb3\xc3",
    b"\\", b"\\u", b"\\u0", b"\\u00", b"\\u0061", b"0061", b"61\\u", b"\\n", b'\\"', b"\\\\", b'n"', b"\\ud8", b"\\ud835", b"\\udcb3",
    b'3"', b'\\"}', b"ud835\\ud",
    b"+", b"a+b", b"if", b"iff", b"if a", b"else", b"x=1;", b"==", b"(a", b"))", b"/*", b"*/", b"a*/", b"//", b"1.5", b"5.x",
]  # fmt: skip
SINGLE = [bytes([b]) for b in range(256)]
TOKENS = [*SINGLE, *AWKWARD, b"", b"aa", b"<eos>"]
EOS = len(TOKENS) - 1
SHARED = Vocabulary(TOKENS, [EOS])
"""Serves all the examples of this file, so that it has seen everything."""


def few_bytes(seed: int) -> Vocabulary:
    """A vocabulary that lacks many bytes: some characters can be spelt as escapes only, some not at all."""
    rng = random.Random(seed)
    kept = [*rng.sample(AWKWARD, 60), *(bytes([b]) for b in b'"{}[]:,\\ntu0123456789abcde- ')]
    if rng.random() < 0.5:
        kept += [bytes([b]) for b in range(0x80, 0x100) if rng.random() < 0.9]
    return Vocabulary([*kept, b"<eos>"], [len(kept)])


def bits(row: NDArray[Any]) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def masked(automaton: Automaton, state: int) -> set[int]:
    """The mask; empty where no token of the vocabulary can go on."""
    try:
        return bits(automaton.mask(state))
    except VocabularyError:
        return set()


def check(automaton: Automaton, state: int) -> set[int]:
    """The mask and the next bytes of a state are what advancing says."""
    mask = masked(automaton, state)
    wanted = {t for t in range(automaton.vocabulary.size) if automaton.advance(state, t) != automaton.DEAD}
    tokens = automaton.vocabulary.tokens
    assert mask == wanted, ([tokens[t] for t in mask - wanted], [tokens[t] for t in wanted - mask])
    single = {tokens[t][0]: t in wanted for t in map(int, automaton.vocabulary.trie_tokens) if len(tokens[t]) == 1}
    live = [b for b in range(256) if (single[b] if b in single else automaton.advance_bytes(state, bytes([b])) != automaton.DEAD)]
    assert automaton.next_bytes(state) == live
    return mask


def walk(automaton: Automaton, seed: int, steps: int) -> Iterator[tuple[bytes, int, set[int]]]:
    """Texts, states and checked masks along a random walk; half of its steps are bytes, so that it stops inside of tokens too."""
    rng = random.Random(seed)
    state, text = automaton.start, b""
    tokens = automaton.vocabulary.tokens
    for _ in range(steps):
        mask = check(automaton, state)
        yield text, state, mask
        longer = sorted({tokens[t] for t in mask if t not in automaton.vocabulary.eos_token_ids and len(tokens[t]) > 1})
        telling = [bytes([b]) for b in automaton.next_bytes(state) if chr(b) in '"\\{}[],:1a-b \nu0d8' or b >= 0x80]
        choice = longer if longer and rng.random() < 0.5 else telling or [bytes([b]) for b in automaton.next_bytes(state)]
        if not choice:
            break
        data = rng.choice(choice)
        state, text = automaton.advance_bytes(state, data), text + data


def explore(constraint: Constraint, seed: int, steps: int = 8) -> None:
    """Masks along a walk are right, and the same with caches warm, evicted or renewed; what can be reached can be completed."""
    fresh = Vocabulary(TOKENS, [EOS])
    try:
        automaton = constraint.compile(fresh)
    except (ConstraintError, LimitError, VocabularyError):
        assume(False)
        raise
    seen = list(walk(automaton, seed, steps))
    for text, state, _ in seen[:: max(1, len(seen) // 3)]:
        end = state
        for token in automaton.shortest_completion(state):
            end = automaton.advance(end, token)
        assert automaton.accepts(end), text
    with pytest.MonkeyPatch.context() as patch:
        warm = constraint.compile(SHARED)
        small = constraint.compile(SHARED, Limits(arena=3))
        patch.setattr(grammars.segments, "_BYTES", 2000)
        evicting = constraint.compile(Vocabulary(TOKENS, [EOS]))
        for text, _, mask in reversed(seen):
            for other in (warm, small, evicting):
                assert masked(other, other.advance_bytes(other.start, text)) == mask, text
    try:
        awkward = constraint.compile(few_bytes(seed))
    except (ConstraintError, LimitError, VocabularyError):
        return
    assert list(walk(awkward, seed, steps))


# ---------------------------------------------------------------- JSON schemas
PATTERNS = [
    "^a", "a$", "^[ab]{0,5}$", "^(a+b*c*d|b.*)$", "^[^-]{2,5}-[^-]{0,9}$", "^[^-]{1,40}(-[^-]{2,3})*$", "^\\d{1,3}(-\\d{2})?$", "é",
    "^.{2,4}$", "^(a|ab|abc)*$",
    "\"", "^[^\\x00-\\x1f\"\\\\-]{2,5}-[^\\x00-\\x1f\"\\\\-]{1,3}$", "𝒳.{3}",
]  # fmt: skip
NAMES = ["a", "ab", "abc", "é", "né", '"', "\\", "", "𝒳", "b", "a b"]
SCALARS: list[Any] = [None, True, False, 1, 12, -1, 0.5, "", "a", "ab", "é", '"', "a-a", "𝒳", [1], {"a": 1}]


@st.composite
def texts(draw: st.DrawFn) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if draw(st.booleans()):
        schema["pattern"] = draw(st.sampled_from(PATTERNS))
    if draw(st.booleans()):
        schema["maxLength"] = draw(st.sampled_from([0, 1, 2, 3, 5, 40, 300]))
    if draw(st.integers(0, 3)) == 0:
        schema["minLength"] = draw(st.sampled_from([0, 1, 2, 5]))
    if draw(st.integers(0, 3)) == 0:
        schema["not"] = draw(st.sampled_from([{"pattern": p} for p in PATTERNS] + [{"enum": ["a", "ab", "a-a", '"']}]))
    if draw(st.integers(0, 3)) == 0:
        schema["allOf"] = [{"pattern": draw(st.sampled_from(PATTERNS))}]
    return schema


@st.composite
def objects(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(NAMES), max_size=4, unique=True))
    schema: dict[str, Any] = {"type": "object", "properties": {n: draw(values) for n in names}}
    schema["required"] = draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))
    if draw(st.booleans()):
        schema["additionalProperties"] = draw(st.one_of(st.booleans(), values))
    if draw(st.integers(0, 3)) == 0:
        schema["patternProperties"] = {draw(st.sampled_from(PATTERNS)): draw(values)}
    if draw(st.integers(0, 3)) == 0:
        schema["propertyNames"] = draw(texts())
    return schema


@st.composite
def arrays(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": draw(values)}
    if draw(st.booleans()):
        schema["uniqueItems"] = True
    if draw(st.booleans()):
        schema["maxItems"] = draw(st.integers(0, 4))
    return schema


leaves = st.one_of(
    texts(), texts(), st.sampled_from([{"type": "integer", "minimum": 3}, {"type": "number"}, {"type": "boolean"}, {"type": "string"}]),
    st.builds(lambda v: {"const": v}, st.sampled_from(SCALARS)),
    st.builds(lambda v: {"enum": v}, st.lists(st.sampled_from(SCALARS), min_size=1, max_size=5)),
)  # fmt: skip
schemas = st.recursive(
    leaves,
    lambda values: st.one_of(objects(values), arrays(values), st.builds(lambda v: {"anyOf": v}, st.lists(values, min_size=2, max_size=3))),
    max_leaves=5,
)
options = st.fixed_dictionaries(
    {
        "escapes": st.sampled_from(["any", "minimal"]),
        "whitespace": st.sampled_from(["flexible", "compact", "indent=2"]),
        "order": st.sampled_from(["schema", "schema", "any"]),
    }
)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(schemas, options, st.integers(0, 2**32))
def test_masks_of_schemas(schema: Any, chosen: dict[str, Any], seed: int) -> None:
    try:
        constraint = JsonSchema(schema, **chosen)
    except ConstraintError:
        assume(False)
        raise
    explore(constraint, seed)


# ---------------------------------------------------------------- regular expressions, grammars
PARTS = [
    "[^-]{2,5}", "[^-]{0,40}", "[^-]{1,3}-[^-]{0,9}", "([^-]{1,2}-)*", "-", "a", "(ab|[^b]c){1,3}", r"\w{1,4}", r"\s{0,30}", ".*",
    "(?s:.{3})", "é?", "[é𝒳a]{2,3}", "(a|aa|aab)*", r"[^\"]{0,20}\"", "(?:[^a]|a[^-])*", "x{0}",
]  # fmt: skip
# Looks stand in front only: many of them within each other take the product of their automata.
LOOKS = ["", "", "", "(?!aa)", "(?=.{0,6}$)", "(?![^-]*-a)"]
sequences = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("".join)
patterns = st.builds(lambda look, ways: f"{look}(?:{'|'.join(ways)})", st.sampled_from(LOOKS), st.lists(sequences, min_size=1, max_size=2))


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.lists(patterns, min_size=1, max_size=3), st.integers(0, 2**32))
def test_masks_of_patterns(chosen: list[str], seed: int) -> None:
    """Several lexemes begin side by side where there are several patterns."""
    constraint: Constraint = Regex(chosen[0])
    for pattern in chosen[1:]:
        constraint = constraint | (Regex(pattern) + '"' + Regex("[^a]*"))
    explore(constraint, seed)


@st.composite
def grammars_of_llama(draw: st.DrawFn) -> str:
    atoms = ['"a"', '"ab"', '"-"', '"\\""', "[^-]", '[^"\\\\]', "[a-c]", "[é𝒳]", '" "', "ws", "one", "two", ".", '","', '":"', "[ \\n]"]

    def body(depth: int) -> str:
        items = []
        for _ in range(draw(st.integers(1, 3))):
            item = f"({body(depth - 1)})" if depth and draw(st.integers(0, 3)) == 0 else draw(st.sampled_from(atoms))
            items.append(item + draw(st.sampled_from(["", "", "*", "+", "?", "{0,3}", "{2}", "{1,60}"])))
        return " ".join(items) + (f" | {body(depth - 1)}" if depth and draw(st.booleans()) else "")

    return f"root ::= {body(2)}\none ::= \"b\" | {body(1)}\ntwo ::= \"c\" one? | \"d\" {body(1)}\nws ::= [ \\n]*\n"


@settings(max_examples=4, deadline=None, derandomize=True)
@given(grammars_of_llama(), st.integers(0, 2**32))
def test_masks_of_gbnf(grammar: str, seed: int) -> None:
    explore(Gbnf(grammar), seed)


LARKS = [
    'start: (WORD | NUMBER | STRING)+\nWORD: /[a-z]+/\nNUMBER: /[0-9]+(\\.[0-9]+)?/\nSTRING: /"[^"]*"/\n%ignore /[ \\n]+/',
    'start: "if" NAME "else" start | NAME "=" expr ";" | expr\n'
    'expr: expr "+" expr | "(" expr ")" | NAME | INT\nNAME: /[a-z]+/\nINT: /-?[0-9]+/\n%ignore " "',
    'start: item*\nitem: COMMENT | TEXT | LINE\nCOMMENT: "/*" /(.|\\n)*?/ "*/"\nLINE: "//" /[^\\n]*/\nTEXT: /[^\\/]+/',
    'start: "[" [pair ("," pair)*] "]"\npair: KEY ":" (KEY | start)\nKEY: /"([^"\\\\]|\\\\.){0,20}"/\n%ignore /\\s{1,4}/',
]  # fmt: skip


@pytest.mark.parametrize("lexing", ["greedy", "any"])
@pytest.mark.parametrize("grammar", LARKS)
def test_masks_of_lark(grammar: str, lexing: str) -> None:
    explore(Lark(grammar, lexing=lexing), 1)


# ---------------------------------------------------------------- particular cases
@pytest.mark.parametrize(
    ("constraint", "before"),
    [
        # what follows the counted repetition repeats the same body
        (Regex("[^-]{2,5}-[^-]{0,9}-"), [b"", b"a", b"aa", b"aaaaa", b"aaaaa-", b"aa-aaaaa"]),
        (Regex("[^-]{2,50}-[^-]{0,3}-[^-]{3,4}"), [b"", b"a", b"aa", b"aaaaa-", b"aa-aa", b"aaaaa-aaa-aa"]),
        (Regex("[^-]{0,6}(-[^-]{0,6})*;"), [b"", b"aaaa", b"aaaaa-", b"aa-aa", b"aaaaa-aaa-aa"]),
        # two lengths, a length within a length
        (Regex("(?=.{0,6}$)[^-]{2,5}-[^-]{0,9}"), [b"", b"aa", b"aaa-", b"a"]),
        (Regex("[^-]{2,5}a") | Regex("[^b]{1,6}b"), [b"", b"a", b"aaaa"]),
        # the base's lexeme may end after every byte
        (Regex(".*") | (Regex("a-[^-]{0,9}") + "x"), [b"", b"a", b"a-"]),
        (Regex(".*") | (Regex("[^-]{1,3}-") + '"'), [b"", b"\xc3\xa9\xd0", b"aa"]),
    ],
)  # fmt: skip
def test_masks_after(constraint: Constraint, before: list[bytes]) -> None:
    automaton = constraint.compile(SHARED)
    for text in before:
        state = automaton.advance_bytes(automaton.start, text)
        assert state != automaton.DEAD
        assert len(check(automaton, state)) > 1


@pytest.mark.parametrize(
    ("schema", "before", "alive"),
    [
        ({"type": "string", "maxLength": 5, "not": {"pattern": "^a"}}, '"a', False),
        ({"type": "string", "maxLength": 5, "not": {"pattern": "^a"}}, '"ba', True),
        ({"type": "string", "maxLength": 5, "not": {"pattern": "a$"}}, '"bbbba', False),
        ({"type": "string", "maxLength": 5, "not": {"pattern": "a$"}}, '"bbba', True),
        ({"allOf": [{"pattern": "^[ab]{0,5}$"}, {"pattern": "^(a+b*c*d|b.*)$"}], "type": "string"}, '"a', False),
        ({"allOf": [{"pattern": "^[ab]{0,5}$"}, {"pattern": "^(a+b*c*d|b.*)$"}], "type": "string"}, '"bab', True),
        ({"allOf": [{"pattern": "^[^-]{0,5}$"}, {"pattern": "^(a+b*-|b.*)$"}], "type": "string"}, '"a', False),
        ({"allOf": [{"pattern": "^(a|é){3,5}$"}, {"pattern": "^é?[a-z]*$"}], "type": "string", "minLength": 5}, '"éaa', True),
        ({"allOf": [{"pattern": "^(a|é){3,5}$"}, {"pattern": "^é?[a-z]*$"}], "type": "string", "minLength": 5}, '"aé', False),
    ],
)
@pytest.mark.parametrize("escapes", ["any", "minimal"])
def test_lengths_with_other_conditions_leave_no_dead_end(schema: dict[str, Any], before: str, alive: bool, escapes: str) -> None:
    automaton = JsonSchema(schema, escapes=escapes).compile(SHARED)
    state = automaton.advance_bytes(automaton.start, before.encode())
    assert (state != automaton.DEAD) is alive
    if alive:
        check(automaton, state)
        for token in automaton.shortest_completion(state):
            state = automaton.advance(state, token)
        assert automaton.accepts(state)


def test_a_mask_may_need_more_segments_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammars.segments, "_BYTES", 1)
    constraint: Constraint = Regex("[^-]{2,5}a")
    for letter in "bcdefgh":
        constraint = constraint | Regex(f"[^{letter}]{{1,6}}{letter}")
    automaton = constraint.compile(Vocabulary(TOKENS, [EOS]))
    for text in (b"", b"a", b"aa"):
        check(automaton, automaton.advance_bytes(automaton.start, text))
    automaton._lexer.segments.trim()
    assert len(automaton._lexer.segments.kept) == 1


# ---------------------------------------------------------------- segments
def merged(vocabulary: Vocabulary, lexer: Lexer, exits: list[int]) -> dict[bytes, list[int]]:
    """The tokens behind the exits, by what follows the exit within them, and all the prefixes of that."""
    found: dict[bytes, list[int]] = {}
    for exit_node in exits:
        prefix = lexer.path(exit_node)
        for t in vocabulary.trie_tokens.tolist():
            token = vocabulary.tokens[t]
            if token.startswith(prefix) and len(token) > len(prefix):
                rest = token[len(prefix) :]
                found.setdefault(rest, []).append(t)
                for n in range(1, len(rest)):
                    found.setdefault(rest[:n], [])
    return found


def read(trie: tuple[NDArray[Any], ...]) -> dict[bytes, list[int]]:
    """The paths of a trie in preorder and the tokens of each; ends are checked."""
    byte, depth, end, first, tokens = trie
    assert len(byte) == len(depth) == len(end) == len(first) - 1
    assert (depth[0], end[0], first[0], first[-1]) == (0, len(byte), 0, len(tokens))
    found: dict[bytes, list[int]] = {}
    path = b""
    for node in range(1, len(byte)):
        path = path[: int(depth[node]) - 1] + bytes([byte[node]])
        assert len(path) == depth[node]
        assert path not in found
        found[path] = tokens[first[node] : first[node + 1]].tolist()
        after = [n for n in range(node + 1, len(byte)) if depth[n] <= depth[node]]
        assert end[node] == (after[0] if after else len(byte))
    return found


def segments_of(lexer: Lexer) -> list[int]:
    """Lexer states of one lexeme of every kind, along some texts."""
    pool = lexer.pool
    wide = pool.chars(CharSet([(0, 0x2C), (0x2E, 0x10FFFF)]))
    encoder = JsonEncoder("any")
    inside = any_text(pool, encoder)
    lexemes = [
        json_string(pool, inside), json_string(pool, pool.repeat(encoder(pool, CharSet.ANY), 0, 300)),
        json_string(pool, text_except(pool, ["a", "ab", "é"], encoder)), pool.cat(pool.repeat(wide, 2, 5), pool.literal(b"-")),
        pool.cat(pool.repeat(wide, 1, 4), pool.literal(b"-"), pool.repeat(wide, 0, 3), pool.literal(b"-")),
        pool.cat(pool.repeat(wide, 3, 900), pool.literal(b"-a")), pool.repeat(pool.byteset(1 << 32 | 1 << 10), 1, 7), pool.star(wide),
        pool.cat(pool.star(wide), pool.literal(b"-"), pool.star(wide)),
    ]  # fmt: skip
    states = []
    for e in lexemes:
        for text in (b"", b'"', b'"a', b'"\\', b"a", b"aaa", b"a-", b"aa-a", b"\xc3", b"  "):
            x = lexer.state((e,))
            for b in text:
                x = int(lexer.table[lexer.row(x), b])
                if not x:
                    break
            if x:
                states.append(x)
    return states


def check_segment(vocabulary: Vocabulary, lexer: Lexer, x: int) -> set[bytes]:
    """The segment of a lexer state against derivatives of its expression; the ends of the lexeme within tokens."""
    segment: Segment = lexer.segments.get(x)
    lexeme = lexer.exprs(x)[0]
    inside, ends = set(), set()
    for t in vocabulary.trie_tokens.tolist():
        e, data = lexeme, vocabulary.tokens[t]
        for n, byte in enumerate(data):
            e = lexer.pool.derivative(e, byte)
            if not e:
                break
            if n + 1 < len(data) and lexer.pool.nullable(e):
                ends.add(data[: n + 1])
        if e:
            inside.add(t)
    assert bits(segment.row) == inside
    exits = segment.exits.tolist()
    assert exits == sorted(exits)
    assert {lexer.path(node) for node in exits} == ends
    assert len(ends) == len(exits)
    assert segment.ends.tolist() == vocabulary.trie_end[segment.exits].tolist()
    if segment.following is None:
        lexer.segments.asked(-int(lexer.tables.tuples[x, 6]))
    assert segment.following is not None
    wanted = {path: sorted(tokens) for path, tokens in merged(vocabulary, lexer, exits).items()}
    assert {path: sorted(tokens) for path, tokens in read(segment.following).items()} == wanted
    return ends


def test_segments_are_the_tokens_inside_and_what_follows() -> None:
    vocabulary = Vocabulary(TOKENS, [EOS])
    lexer = vocabulary.lexer()
    found = [check_segment(vocabulary, lexer, x) for x in segments_of(lexer)]
    assert any(a != b and b.startswith(a) for ends in found for a in ends for b in ends)  # exits below exits are among them


@pytest.mark.parametrize(
    ("pattern", "lengths"),
    [
        (r"^\S(.*\S)?$", (1, 2, 3, 7, 40)), (r"^(?:\S+\s+){0,29}\S+$", (None, 5, 60)), (r"^[^-]*é$", (1, 2, 4, 30)),
        (r"^([^-]{1,3}-|c){0,40}$", (None, 9)), (r"^.{4,}a$", (5, 6, 20)), (r'"$', (2, 5, 50)), (r"^([^-]+-){0,14}b{0,20}$", (None, 3, 70)),
    ],
)  # fmt: skip
def test_segments_that_many_counts_share(pattern: str, lengths: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = Vocabulary(TOKENS, [EOS])
    lexer = vocabulary.lexer()
    asked: dict[int, None] = {}
    want = grammars.segments.Segments.want

    def noted(self: grammars.segments.Segments, x: int) -> None:
        asked[x] = None
        want(self, x)

    monkeypatch.setattr(grammars.segments.Segments, "want", noted)
    rng = random.Random(3)
    for most in lengths:
        schema = {"type": "string", "pattern": pattern} | ({} if most is None else {"maxLength": most})
        automaton = JsonSchema(schema).compile(vocabulary)
        for _ in range(4):
            state = automaton.start
            for _ in range(30):
                tokens = sorted(bits(automaton.mask(state)) - {EOS})
                if not tokens:
                    break
                state = automaton.advance(state, min(rng.sample(tokens, min(3, len(tokens))), key=lambda t: len(TOKENS[t])))
    assert len(asked) > 3
    for x in asked:
        check_segment(vocabulary, lexer, x)
