"""Models write instances of real-world schemas at temperature 1; every one parses and validates.

The packaged model shows that it works as it is used; a random model, which prefers nothing, goes where no real one would.
"""

from __future__ import annotations

import gzip
import json
import random
import warnings
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import guided
from guided import ConstraintError, JsonSchema, LimitError, Model
from tests import tiny, tokenizers

SHOWN, WHOLE, RANDOM = 5, 40, 10
LARGEST = 3_000  # characters of a schema
TOKENS = 160


@pytest.fixture(scope="module")
def model(packaged_model: Any) -> Model:
    return guided.load(packaged_model)


def schemas(folder: Path) -> list[tuple[str, Any]]:
    """A fixed draw over all splits: one of each in turn."""
    rng = random.Random(0)
    splits = []
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            rows = [json.loads(line) for line in lines]
        small = [(row["id"], row["schema"]) for row in rows if len(json.dumps(row["schema"])) <= LARGEST]
        splits.append(rng.sample(small, min(len(small), 40)))
    assert len(splits) > 5
    return [split[i] for i in range(40) for split in splits if i < len(split)]


def generated(model: Model, data_dir: Path, count: int) -> list[tuple[str, Any, str]]:
    """``count`` schemas that are supported, each with a text; refusals and texts that cannot be short are passed over."""
    found: list[tuple[str, Any, str]] = []
    for seed, (name, schema) in enumerate(schemas(data_dir / "maskbench")):
        if len(found) == count:
            break
        try:
            result = guided.generate(model, "Give an example.", JsonSchema(schema), seed=seed, max_tokens=TOKENS, instruct=False)
        except (ConstraintError, LimitError):
            continue
        assert result.finish_reason == "complete", name
        found.append((name, schema, result.text))
    assert len(found) == count
    return found


def validate(found: list[tuple[str, Any, str]]) -> None:
    for name, schema, text in found:
        value = json.loads(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            errors = [error.message for error in jsonschema.validators.validator_for(schema)(schema).iter_errors(value)]
        assert not errors, (name, text, errors)


def test_a_random_model(data_dir: Path) -> None:
    tokenizer = tokenizers.gpt2()
    validate(generated(guided.load((tiny.llama(len(tokenizer), scale=4.0, positions=1024), tokenizer)), data_dir, RANDOM))


def test_a_sample(model: Model, data_dir: Path) -> None:
    validate(generated(model, data_dir, SHOWN))


@pytest.mark.slow
def test_forty(model: Model, data_dir: Path) -> None:
    validate(generated(model, data_dir, WHOLE))
