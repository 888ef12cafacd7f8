"""``guided search``, on a tiny model."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from guided.strategies import STRATEGIES

from .test_cli import call

CHOICES = ["-c", "red", "-c", "green", "-c", "blue", "--max-tokens", "8"]


@pytest.fixture
def search(model_folder: Path) -> list[str]:
    return ["search", "A colour:", "--model", str(model_folder)]


def test_the_text_goes_to_the_standard_output(search: list[str]) -> None:
    done = call(*search, *CHOICES, "--strategy", "beam", "-o", "beams=3", "--all")
    assert done.returncode == 0 and done.stdout.strip() in ("red", "green", "blue")
    assert "beam search: score" in done.stderr and "log p" in done.stderr


def test_json_and_traces(search: list[str], tmp_path: Path) -> None:
    done = call(*search, *CHOICES, "--json", "--trace", str(tmp_path / "t.html"))
    found = json.loads(done.stdout)
    assert found["text"] == found["found"][0]["text"] and found["forwards"] > 0 and found["complete"]
    assert [one["score"] for one in found["found"]] == sorted((one["score"] for one in found["found"]), reverse=True)
    assert (tmp_path / "t.html").read_text().startswith("<!doctype html>")
    call(*search, *CHOICES, "--trace", str(tmp_path / "t.json"))
    assert json.loads((tmp_path / "t.json").read_text())["nodes"]


def test_rewards(search: list[str], tmp_path: Path) -> None:
    rewards = tmp_path / "rewards.py"
    rewards.write_text("def longest(text):\n    return len(text)\n\ndef number(value):\n    return -abs(value['n'] - 5)\n")
    lexicon = tmp_path / "words.txt"
    lexicon.write_text("# colours\nred 9\ngreen\nblue -3\n")
    args = ["--strategy", "blockwise", "-o", "k=30", "-o", "block=8", "--seed", "2"]
    assert call(*search, *CHOICES, *args, "--lexicon", str(lexicon)).stdout.strip() == "red"
    assert call(*search, *CHOICES, *args, "--lexicon", str(lexicon), "--scale=-1").stdout.strip() == "blue"
    found = call(*search, *CHOICES, "--strategy", "blockwise", "-o", "k=6", "--reward", f"{rewards}:longest", "--json", "--seed", "1")
    assert json.loads(found.stdout)["score"] == len(json.loads(found.stdout)["text"])
    schema = json.dumps({"type": "object", "properties": {"n": {"enum": [1, 5, 900]}}, "required": ["n"], "additionalProperties": False})
    options = ["--schema", schema, "--max-tokens", "20", "--strategy", "blockwise", "-o", "k=40", "-o", "block=20", "--seed", "3"]
    found = call(*search, *options, "--reward", f"{rewards}:number", "--reward-of", "value")
    assert json.loads(found.stdout) == {"n": 5}


def test_budgets(search: list[str]) -> None:
    schema = json.dumps({"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"]})
    done = call(*search, "--schema", schema, "--max-tokens", "30", "--forwards", "4", "--json")
    assert done.returncode == 0 and not json.loads(done.stdout)["complete"]
    assert "s" in json.loads(json.loads(done.stdout)["text"])


def test_lists_its_strategies() -> None:
    done = call("search", "--list")
    assert done.returncode == 0
    for name, kind in STRATEGIES.items():
        assert f"{name}: " in done.stdout
        assert all(f"    {each.name} = " in done.stdout for each in dataclasses.fields(kind))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--strategy", "hope"], "no strategy 'hope'"),
        (["-o", "width=3"], "no field 'width'"),
        (["-o", "beams=0"], "beams must be"),
        (["--strategy", "args"], "needs a reward"),
        (["--lexicon", "LEXICON"], "takes no reward"),
        (["--strategy", "args", "--lexicon", "LEXICON", "--reward", "x.py:y"], "exclude each other"),
        (["--strategy", "args", "--lexicon", "BROKEN"], "is no lexicon"),
        (["--strategy", "args", "--reward", "x.py:y", "--reward-of", "tokens"], "reward-of"),
        (["--strategy", "smc", "--lexicon", "LEXICON", "--forwards", "9"], "no search budget"),
        (["--strategy", "args", "--classifier", "no/such/folder"], "classifier"),
        (["--forwards", "0"], "above 0"),
        (["-t", "0"], "temperature"),
    ],
)
def test_bad_input_is_one_message(search: list[str], tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "words.txt").write_text("red 1\n")
    (tmp_path / "broken.txt").write_text("red much\n")
    names = {"LEXICON": str(tmp_path / "words.txt"), "BROKEN": str(tmp_path / "broken.txt")}
    done = call(*search, *CHOICES, *(names.get(argument, argument) for argument in arguments))
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
