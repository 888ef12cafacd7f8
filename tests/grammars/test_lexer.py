"""Lexer states: rows that kernels make are what the derivatives say."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.lexer import Lexer
from grammars.strings import JsonEncoder, json_string, literal_text, text_except
from grammars.vocabulary import Vocabulary

VOCABULARY = Vocabulary([bytes([b]) for b in range(256)] + [b"<eos>"], [256])


def expected(lexer: Lexer, exprs: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """For every byte the surviving slots and their expressions, by derivative."""
    out = []
    for byte in range(256):
        after = [(i, lexer.pool.derivative(e, byte)) for i, e in enumerate(exprs)]
        alive = [(i, e) for i, e in after if not lexer.pool.is_empty(e)]
        out.append((tuple(i for i, _ in alive), tuple(e for _, e in alive)))
    return out


def check(lexer: Lexer, x: int) -> None:
    exprs = lexer.exprs(x)
    row = lexer.row(x)
    for byte, (slots, targets) in enumerate(expected(lexer, exprs)):
        to = int(lexer.table[row, byte])
        assert bool(to) == bool(slots), byte
        if to:
            assert lexer.exprs(to) == targets, byte
            keep = int(lexer.kept[row, byte])
            assert (tuple(lexer.surviving(keep)) if keep else tuple(range(len(exprs)))) == slots, byte


names = st.lists(st.text(st.sampled_from('abné"\\\n𝒳 '), max_size=4), min_size=1, max_size=5, unique=True)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(names, st.sampled_from(["any", "minimal"]), st.integers(0, 5), st.integers(0, 2**32))
def test_rows_are_the_derivatives(texts: list[str], escapes: str, shown: int, seed: int) -> None:
    lexer = VOCABULARY.lexer()
    pool = lexer.pool
    keys = [json_string(pool, literal_text(pool, t, escapes)) for t in texts[:shown]]
    other = json_string(pool, text_except(pool, texts, JsonEncoder(escapes)))
    x = lexer.state((*keys, other))
    rng = random.Random(seed)
    for _ in range(12):
        check(lexer, x)
        live = [b for b in range(256) if lexer.table[lexer.row(x), b]]
        if not live:
            break
        telling = [b for b in live if chr(b) in 'abn"\\u0169ed' or b > 0xC0]
        x = int(lexer.table[lexer.row(x), rng.choice(telling or live)])
