"""Rows of the lexer's kernels against the pool's derivatives, for every kind of expression that the kernels find moves of."""

from __future__ import annotations

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from grammars.kernels.texts import CHAIN, COUNT, EXCEPT, NATIVE, PAIR, WALK
from grammars.lexer import Lexer
from grammars.regex.charset import CharSet
from grammars.regex.expr import Pool
from grammars.strings import JsonEncoder, any_text, complement, json_string, literal_text, text_except, text_set
from grammars.vocabulary import Vocabulary

ALL = Vocabulary([bytes([b]) for b in range(256)] + [b"<eos>"], [256])
# Neither capitals nor most of UTF-8: some characters can be spelt in one way only, some not at all.
FEW = Vocabulary([bytes([b]) for b in b'"\\/u0123456789abcdef nrt-:x\xc3\xa9\xa8'] + [b"longer", b"<eos>"], [29])
UNWRITABLE_DIGITS = Vocabulary([bytes([b]) for b in range(256) if b not in b"Dd9"] + [b"<eos>"], [253])

TEXTS = [
    "", "a", "ab", "abc", "b", "é", "né", "è", "𝒳", "𝒴", "a𝒳", "\ue000", "\ud7ff", '"', "\\", "/", "\n", "\x00", "\x1f",
    "\x7f", "aé\n", "ü", "ud835", "€",
]  # fmt: skip
CHARS = [
    CharSet.ANY - CharSet([(0xD800, 0xDFFF)]), CharSet([(97, 99)]), CharSet([(0, 0x10FFFF)]) - CharSet([(45, 45)]),
    CharSet([(97, 97), (0xE9, 0xE9), (0x1D4B3, 0x1D4B4)]),
    CharSet([(34, 34), (92, 92), (10, 10), (97, 98)]),
]  # fmt: skip
BOUNDS = [(0, 0), (0, 1), (1, 1), (1, 2), (0, 3), (2, 2), (3, 5), (0, None), (2, None), (0, 5000), (100_000, 10**6), (7, None)]

# An expression as data: kind and parts, made in any pool.
texts = st.lists(st.sampled_from(TEXTS), min_size=1, max_size=6, unique=True)
bounds = st.sampled_from(BOUNDS)
leaves = st.one_of(
    st.tuples(st.just("text"), st.sampled_from(TEXTS)),
    st.tuples(st.just("set"), texts),
    st.tuples(st.just("except"), texts),
    st.tuples(st.just("chars"), st.sampled_from(CHARS)),
    st.tuples(st.just("count"), st.sampled_from(CHARS), bounds),
    st.tuples(st.just("raw"), st.sampled_from([b'"', b"a", b"ab", b"-", b'":', b"x\xff\xc3"])),
)
exprs = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("cat"), st.lists(inner, min_size=2, max_size=4)),
        st.tuples(st.just("cat"), st.lists(inner, min_size=2, max_size=4)),
        st.tuples(st.just("repeat"), inner, bounds),
        st.tuples(st.just("alt"), st.lists(inner, min_size=2, max_size=3)),
        st.tuples(st.just("length"), inner, st.sampled_from(CHARS[:3]), bounds),
        st.tuples(st.just("but"), inner),
    ),
    max_leaves=5,
)


def make(pool: Pool, data: tuple, encoder: JsonEncoder) -> int:
    """The expression of some data: contents of strings, as ``encoder`` spells them."""
    kind, *args = data
    if kind == "text":
        return literal_text(pool, args[0], encoder.escapes)
    if kind == "set":
        return text_set(pool, args[0], encoder.escapes)
    if kind == "except":
        return text_except(pool, args[0], encoder)
    if kind == "chars":
        return _chars(pool, args[0], encoder)
    if kind == "count":
        return pool.repeat(_chars(pool, args[0], encoder), *args[1])
    if kind == "raw":
        return pool.literal(args[0])
    if kind == "cat":
        return pool.cat(*(make(pool, part, encoder) for part in args[0]))
    if kind == "alt":
        return pool.alt(*(make(pool, part, encoder) for part in args[0]))
    if kind == "repeat":
        return pool.repeat(make(pool, args[0], encoder), *args[1])
    if kind == "length":
        return pool.both(pool.repeat(_chars(pool, args[1], encoder), *args[2]), make(pool, args[0], encoder))
    return complement(pool, make(pool, args[0], encoder), encoder)


def _chars(pool: Pool, chars: CharSet, encoder: JsonEncoder) -> int:
    found = encoder(pool, chars)
    if found:
        pool.note_chars(found, encoder, chars)
    return found


def alike(pool: Pool, a: int, b: int) -> bool:
    """Whether two expressions have the same language."""
    return a == b or (pool.is_empty(pool.minus(a, b)) and pool.is_empty(pool.minus(b, a)))


def check(lexer: Lexer, x: int) -> None:
    """The row of a state is what the derivatives of its expressions say."""
    pool, exprs = lexer.pool, lexer.exprs(x)
    row = lexer.row(x)
    known: dict[tuple[int, tuple[int, ...]], None] = {}
    for byte in range(256):
        after = [(i, pool.derivative(e, byte)) for i, e in enumerate(exprs)]
        alive = [(i, e) for i, e in after if not pool.is_empty(e)]
        to, keep = int(lexer.table[row, byte]), int(lexer.kept[row, byte])
        slots = () if not to else tuple(lexer.surviving(keep)) if keep else tuple(range(len(exprs)))
        assert slots == tuple(i for i, _ in alive), byte
        if to and (to, tuple(e for _, e in alive)) not in known:
            known[to, tuple(e for _, e in alive)] = None
            found = lexer.exprs(to)
            assert all(alike(pool, a, b) for a, (_, b) in zip(found, alive, strict=True)), byte
            ends = lexer.accepted(int(lexer.accept[to])) if lexer.accept[to] else []
            assert ends == [n for n, (_, e) in enumerate(alive) if pool.nullable(e)], byte


def walk(lexer: Lexer, exprs: tuple[int, ...], seed: int, steps: int) -> set[int]:
    """Checks rows along a random walk; kinds of kernel expressions met."""
    rng = random.Random(seed)
    x, kinds = lexer.state(exprs), set()
    for _ in range(steps):
        check(lexer, x)
        first, n = lexer.tables.tuples[x, :2].tolist()
        for e in lexer.tables.exprs[first : first + n].tolist():
            assert alike(lexer.pool, lexer.mirror.expr(lexer.mirror.native(lexer.mirror.expr(e))), lexer.mirror.expr(e))
            if e >= NATIVE:
                kinds.add(int(lexer.tables.nodes[e - NATIVE, 0]))
        live = [b for b in range(256) if lexer.table[lexer.row(x), b]]
        if not live:
            break
        telling = [b for b in live if chr(b) in 'abc"\\u0d8359efCDn/-' or b > 0xC0 or 0x90 <= b <= 0xB8]
        x = int(lexer.table[lexer.row(x), rng.choice(telling or live)])
    return kinds


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(exprs, min_size=1, max_size=4),
    st.sampled_from(["any", "minimal"]),
    st.sampled_from([ALL, ALL, FEW, UNWRITABLE_DIGITS]),
    st.integers(0, 2**32),
)
@example([("length", ("cat", [("chars", CHARS[1]), ("text", "é"), ("count", CHARS[0], (0, None))]), CHARS[1], (0, 5))], "any", ALL, 1)
@example([("length", ("but", ("cat", [("text", "a"), ("count", CHARS[0], (0, None))])), CHARS[0], (0, 5))], "any", ALL, 1)
def test_rows_are_the_derivatives(data: list[tuple], escapes: str, vocabulary: Vocabulary, seed: int) -> None:
    lexer = vocabulary.lexer()
    pool = lexer.pool
    encoder = JsonEncoder(escapes)
    made = [make(pool, part, encoder) for part in data]
    closed = [json_string(pool, e) if n % 2 else e for n, e in enumerate(made)]
    lexemes = tuple(e for e in closed if not pool.is_empty(e))
    for e in lexemes:
        assert alike(pool, lexer.mirror.expr(lexer.mirror.native(e)), e)
    if lexemes:
        walk(lexer, lexemes, seed, 6)


def test_every_kind_of_expression_is_met() -> None:
    """The kinds whose moves the kernels find are indeed what the expressions become."""
    lexer = ALL.lexer()
    pool = lexer.pool
    encoder = JsonEncoder("any")
    digit = pool.byteset(0x3FF << 48)
    lexemes = (
        json_string(pool, text_set(pool, ["a", "ab", "𝒳"])),
        json_string(pool, text_except(pool, ["a", "né"], encoder)),
        json_string(pool, pool.repeat(_chars(pool, CHARS[0], encoder), 2, 300)),
        json_string(pool, make(pool, ("length", ("cat", [("text", "a"), ("count", CHARS[0], (0, None))]), CHARS[0], (1, 40)), encoder)),
        pool.cat(pool.literal(b'"'), any_text(pool, encoder), digit, json_string(pool, pool.EPSILON)),
    )
    kinds = set()
    for seed in range(3):
        kinds |= walk(lexer, lexemes, seed, 4)
    assert kinds == {WALK, EXCEPT, COUNT, CHAIN, PAIR}
