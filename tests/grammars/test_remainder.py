"""How much may be missing of a text that has begun: the bound against what is missing, after all or random beginnings."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from grammars import Gbnf, JsonSchema, Lark, Vocabulary
from grammars.automaton import Automaton
from grammars.constraint import Constraint
from grammars.regex.expr import Pool
from grammars.regex.remainder import remainder
from guided.evaluation.tokenizers import small_vocabulary

SCHEMAS: list[Any] = [
    {"type": "integer"}, {"type": "number"}, {"type": "integer", "minimum": 0}, {"type": "integer", "minimum": 17, "maximum": 123456},
    {"type": "number", "minimum": 0.001, "maximum": 2.75}, {"type": "number", "exclusiveMinimum": -3, "exclusiveMaximum": 1e-9},
    {"type": "integer", "minimum": -10**12}, {"type": "integer", "maximum": -98765}, {"type": "number", "multipleOf": 0.25, "maximum": 9},
    {"type": "string"}, {"type": "string", "minLength": 3, "maxLength": 9}, {"type": "string", "pattern": "^(ab|c){2,5}-[0-9]{3}$"},
    {"enum": ["a", "ab", "a\"b", "long é text 😀", 12, None]}, {"type": ["string", "integer", "null"]}, {"not": {"enum": ["ab", "abc", 7]}},
    {"type": "string", "format": "uuid"}, {"type": "string", "not": {"pattern": "b"}, "maxLength": 4},
]  # fmt: skip


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return small_vocabulary()


def terminals(automaton: Automaton) -> list[int]:
    return [t.expr for t in automaton._parser.terminals]


@pytest.mark.parametrize("escapes", ["any", "minimal"])
@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_no_beginning_misses_more(schema: Any, escapes: str, vocabulary: Vocabulary) -> None:
    automaton = JsonSchema(schema, escapes=escapes).compile(vocabulary)
    pool, rng = automaton._lexer.pool, random.Random(7)
    for e in terminals(automaton):
        bound = remainder(pool, e, {})
        for _ in range(60):
            at = e
            for _ in range(40):
                assert pool.min_length(at) <= bound, pool.show(at)
                parts = pool.transitions(at)
                if not parts:
                    break
                at = rng.choice(parts)[1]


def test_it_is_no_more_than_needed_where_that_is_simple() -> None:
    pool = Pool()
    word = pool.literal(b"word")
    assert remainder(pool, word, {}) == 4
    assert remainder(pool, pool.cat(pool.star(word), pool.literal(b"-end")), {}) == 8
    assert remainder(pool, pool.repeat(word, 3, None), {}) == 12
    assert remainder(pool, pool.alt(word, pool.literal(b"longer words")), {}) == 12
    assert remainder(pool, pool.negate(word), {}) < math.inf


CONSTRAINTS: list[Constraint] = [
    JsonSchema({
        "type": "object", "required": ["name", "kind"],
        "properties": {
            "name": {"type": "string", "minLength": 2}, "kind": {"enum": ["short", "a rather long value"]},
            "n": {"type": "integer", "minimum": 1000},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2},
            "inner": {"type": "object", "properties": {"flag": {"type": "boolean"}, "x": {"type": "number"}}, "required": ["flag"]},
        },
    }),
    JsonSchema({"type": "array", "items": {"$ref": "#"}, "maxItems": 3}),
    JsonSchema({"anyOf": [{"type": "object", "additionalProperties": {"type": "null"}}, {"type": "string", "maxLength": 5}]}),
    Gbnf('root ::= "(" root ")" | "x" [a-z]{3,6} | "<" root "," root ">"'),
    Lark('start: "a" start "bcd" | "e" | "[" start* "]"', lexing="any"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CONSTRAINTS)))
def test_no_token_needs_more_than_the_bound(number: int, vocabulary: Vocabulary) -> None:
    automaton = CONSTRAINTS[number].compile(vocabulary)
    rng = random.Random(number)
    bounded = 0
    for _ in range(12):
        state = automaton.start
        for _ in range(25):
            bound = automaton.completion_bound(state)
            _, costs = automaton.completion_costs(state)
            assert costs.max(initial=0) <= bound
            assert automaton.distance(state) <= bound
            bounded += bound < math.inf
            allowed = np.flatnonzero(np.unpackbits(automaton.mask(state).view(np.uint8), bitorder="little"))
            token = int(rng.choice(allowed))
            if token in vocabulary.eos_token_ids:
                break
            state = automaton.advance(state, token)
    assert bounded > 20


def test_where_bytes_or_longest_matches_decide_there_is_no_bound(vocabulary: Vocabulary) -> None:
    unique = JsonSchema({"type": "array", "uniqueItems": True, "items": {"type": "string"}})
    for constraint in (unique, Lark("start: A B?\nA: /a+/\nB: /ab/")):
        automaton = constraint.compile(vocabulary)
        assert automaton.completion_bound(automaton.start) == math.inf
