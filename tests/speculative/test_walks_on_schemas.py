"""Random texts under real schemas, drafted and verified: valid every one, and closed in time."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from grammars import JsonSchema, Vocabulary
from grammars.errors import GuidedError
from guided.evaluation.suites import Case, maskbench, sample
from samplers.budget import Budget
from samplers.masked import Request
from samplers.models import TabularModel
from speculative import decode
from speculative.verifiers import Matching, MultiCandidate, Recursive, SpecTr
from tests.speculative.toy import Branches, Fixed, Mixed, Sampled

WORDS = [b'": ', b'", "', b'{"', b'"}', b"true", b"null", b"the", b"ing", b"00", b"[]", b", ", "é".encode(), b"type", b"name"]
VOCABULARY = Vocabulary([*(bytes([byte]) for byte in range(256)), *WORDS, b""], eos_token_ids=[256 + len(WORDS)])
WIDTH = VOCABULARY.size
LENGTH = 120
WAYS: list[Any] = [
    (Recursive, Sampled, Branches(2, 1, 1)),
    (MultiCandidate, partial(Sampled, how="with"), Branches(2, 2)),
    (SpecTr, Mixed, Branches(2, 1)),
    (Matching, Fixed, Branches(1, 1, 1, 1)),
]


def scribbler(seed: int) -> TabularModel:
    """Writes what JSON is made of, and anything else now and then; hardly ever wants to end."""

    def row(recent: tuple[int, ...]) -> list[float]:
        rng = random.Random(f"{seed} {recent}")
        weights = [
            rng.random() ** 6 * (20.0 if chr(t) in '"{}[]:, 0123456789aeiou' else 1.0) if t < 256 else 3 * rng.random()
            for t in range(WIDTH)
        ]
        weights[-1] = 0.001
        total = sum(weights)
        return [w / total for w in weights]

    return TabularModel(WIDTH, WIDTH - 1, row, memory=1)


def walk(cases: list[Case], each: int) -> tuple[int, int]:
    """Texts that were written, and schemas they were written for."""
    target, small = scribbler(1), scribbler(2)
    texts = used = 0
    for n, one in enumerate(cases):
        try:
            automaton = JsonSchema(one.schema).compile(VOCABULARY)
            budget = Budget(automaton)
            budget.check(LENGTH)
        except GuidedError:
            continue
        used += 1
        verifier, drafter, shape = WAYS[n % len(WAYS)]
        made: dict[int, list[int]] = {}
        asked = [Request([0], automaton, LENGTH, 100 * n + k, budget) for k in range(each)]
        for step in decode(target, asked, drafter(small), verifier=verifier(), shape=shape):
            for token in step:
                made.setdefault(token.row, []).append(token.token)
        for tokens in made.values():
            assert tokens[-1] == WIDTH - 1 and len(tokens) <= LENGTH, one.id
            text = b"".join(VOCABULARY.tokens[token] for token in tokens[:-1]).decode()
            value = json.loads(text)
            assert automaton.accepts(automaton.advance_bytes(automaton.start, text.encode())), one.id
            jsonschema.validators.validator_for(one.schema)(one.schema).validate(value)
            texts += 1
    return texts, used


def test_texts_of_real_schemas_are_valid(data_dir: Path) -> None:
    texts, used = walk(sample(maskbench(data_dir, ["Github_easy"]), 4, seed=11), 2)
    assert used >= 3 and texts == 2 * used


@pytest.mark.slow
def test_many_texts_of_many_real_schemas_are_valid(data_dir: Path) -> None:
    texts, used = walk(sample(maskbench(data_dir), 120, seed=11), 10)
    assert used >= 60 and texts == 10 * used
