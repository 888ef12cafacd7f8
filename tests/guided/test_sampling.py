"""``guided.sample`` and ``guided sample``: one call for every method, its results, its refusals."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from rich.console import Console
from typer.testing import CliRunner

import guided
from guided import ConstraintError, DeadEnd, Model
from guided.cli import app
from guided.sample_cli import function_of, options_of
from guided.sampling import METHODS
from samplers.registry import methods
from tests.laws.cases import END, case, distortion

WORDS = ["yes", "no", "maybe so"]
FEW = {"mcmc": {"steps": 4}, "daemon": {"candidates": 4}}


def run(model: Any, method: str = "smc", constraint: Any = WORDS, **options: Any) -> guided.Sampled:
    options = {"particles": 6, "max_tokens": 10, "seed": 3, "prompt": "Well?"} | FEW.get(method, {}) | options
    return guided.sample(model, options.pop("prompt"), constraint, method=method, **options)


# ---------------------------------------------------------------- the law, through the front door
@pytest.mark.parametrize("method", METHODS)
def test_masking_shows_its_bias_and_every_other_method_the_truth(method: str) -> None:
    problem = distortion()
    options = {"mcmc": {"steps": 40}, "daemon": {"candidates": 8}}.get(method, {})
    found = guided.sample(problem.model, problem.prompt, problem.automaton, method=method, particles=400, max_tokens=4, seed=5, **options)
    share, error = found.samples.estimate(lambda tokens: float(tokens[0] == 0))
    truth = sum(p for tokens, p in problem.law.items() if tokens[0] == 0)
    assert truth == pytest.approx(0.9, abs=0.01)
    weighted = found.expectation(lambda item: float(item.text.startswith("a")))
    if method == "masking":
        assert weighted == pytest.approx(0.3, abs=0.08)
        assert found.kl is not None and found.kl > 0.3
    else:
        assert weighted == pytest.approx(share)
        assert abs(share - truth) <= 5 * error + 0.01
        assert found.kl is None or found.kl < 0.02
    assert found.log_z == pytest.approx(problem.log_z, abs=max(0.15, 5 * found.log_z_error))
    assert set(found.distribution()) <= {"ac", "bc"}


def test_every_method_of_the_call_is_in_the_table(plain_model: Model) -> None:
    named = {m.name for m in methods()}
    for method in METHODS:
        if method == "rejection":  # hopeless on a random model
            continue
        found = run(plain_model, method)
        assert found.listed in named and found.law and found.method == method


# ---------------------------------------------------------------- results
@pytest.mark.parametrize("method", [m for m in METHODS if m != "rejection"])
def test_texts_are_in_the_language_and_reproducible(method: str, plain_model: Model) -> None:
    found = run(plain_model, method)
    there_are = len(WORDS) if method.endswith("-beam") else 6  # a beam has no text twice, and each word one spelling here
    assert len(found.texts) == there_are and found.seed == 3 and found.forwards > 0
    assert math.fsum(item.weight for item in found.texts) == pytest.approx(1)
    assert {item.text for item in found.texts if item.weight} <= set(WORDS)
    assert all(item.value == item.text for item in found.texts if item.finished)
    again = run(plain_model, method)
    assert [(t.text, t.weight) for t in again.texts] == [(t.text, t.weight) for t in found.texts]


def test_result_is_printable_and_json(plain_model: Model) -> None:
    found = run(plain_model, "smc", particles=8)
    data = json.loads(found.to_json())
    assert data["method"] == "smc" and data["law"].startswith("exact in the limit") and len(data["texts"]) == 8
    assert data["log_z"] == pytest.approx(found.log_z) and data["ess"] == found.ess and data["details"]["calls"] > 0
    heaviest = next(iter(found.distribution()))
    assert repr(heaviest) in str(found) and "log Z" in str(found)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(found)
    assert heaviest in console.export_text() and "forwards" in found.summary()
    assert json.loads(run(plain_model, "smc", particles=1).to_json())["log_z_error"] is None


def test_draws_follow_the_weights(plain_model: Model) -> None:
    found = run(plain_model, "smc", particles=8)
    drawn = found.draw(500, seed=1)
    assert {item.text for item in drawn} <= set(found.distribution())
    for text, weight in found.distribution().items():
        share = sum(item.text == text for item in drawn) / 500
        assert abs(share - weight) < 5 * math.sqrt(weight * (1 - weight) / 500) + 1e-9
    assert [d.text for d in found.draw(5)] == [d.text for d in found.draw(5)]


def test_values_of_types(plain_model: Model) -> None:
    class Answer(BaseModel):
        sure: bool

    found = run(plain_model, "awrs-smc", Answer, max_tokens=24)
    assert all(isinstance(item.value, Answer) for item in found.texts if item.finished)
    assert any(item.finished for item in found.texts)


def test_one_seed_is_drawn_and_told(plain_model: Model) -> None:
    first = run(plain_model, seed=None)
    assert [t.text for t in run(plain_model, seed=first.seed).texts] == [t.text for t in first.texts]


# ---------------------------------------------------------------- rewards and checkers
def test_a_reward_of_texts(plain_model: Model) -> None:
    plain = run(plain_model, "importance", particles=24)
    tilted = run(plain_model, "importance", particles=24, reward=lambda text: 2.0 if text == "maybe so" else 0.0)
    before, after = plain.distribution(), tilted.distribution()
    odds = {text: math.exp(2.0 * (text == "maybe so")) * weight for text, weight in before.items()}
    assert after == pytest.approx({text: odd / math.fsum(odds.values()) for text, odd in odds.items()})


def test_rewards_of_prefixes_are_told_whether_the_text_is_finished(plain_model: Model) -> None:
    asked: list[tuple[str, bool]] = []

    def reward(text: str, finished: bool) -> float:
        asked.append((text, finished))
        return 0.0

    run(plain_model, "smc", reward=reward)
    assert {text for text, finished in asked if finished} <= set(WORDS)
    assert any(not finished and text not in WORDS for text, finished in asked)
    whole: list[str] = []
    run(plain_model, "smc", reward=lambda text, scale=1.0: whole.append(text) or 0.0)
    assert set(whole) <= set(WORDS), "a reward of one argument is asked about whole texts only"


def test_a_checker(plain_model: Model) -> None:
    def no_y(text: str) -> bool:
        return not text.startswith("y")

    for method in ("awrs", "smc"):
        found = run(plain_model, method, particles=12, check=no_y)
        assert set(found.distribution()) <= {"no", "maybe so"}
    ends: list[str] = []

    def short(text: str, finished: bool) -> bool:
        if finished:
            ends.append(text)
        return not finished or len(text) < 4

    assert set(run(plain_model, "awrs-smc", particles=12, check=short).distribution()) <= {"yes", "no"}
    assert set(ends) <= set(WORDS)


def test_options_reach_the_method(plain_model: Model) -> None:
    found = run(plain_model, "smc", particles=16, moves=1, ess_threshold=1.0, resampling="residual", block="word")
    assert found.listed == "resample-move SMC" and found.details["moves"] > 0
    assert run(plain_model, "mcmc", steps=2).details["steps"] == 12


# ---------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "there are masking, importance"),
        ({"method": "importance", "block": 2}, "has no option 'block'; it takes none"),
        ({"method": "smc", "proposal": "awrs"}, "no option 'proposal'; it takes potential"),
        ({"method": "smc", "ess_threshold": 2}, "from 0 to 1"),
        ({"method": "cars", "reward": len}, "reward_bound"),
        ({"particles": 0}, "particles must be at least 1"),
        ({"temperature": 0}, "temperature must be a positive"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"particles": 2.5}, "particles must be a whole number, not 2.5"),
        ({"max_tokens": "8"}, "max_tokens must be a whole number, not '8'"),
        ({"temperature": "hot"}, "temperature must be a number, not 'hot'"),
        ({"method": "cars", "max_trials": "many"}, "max_trials must be a whole number, not 'many'"),
        ({"method": "cars", "reward": len, "reward_bound": "x"}, "reward_bound must be a number, not 'x'"),
        ({"method": "awrs", "premask": 1}, "premask must be true or false, not 1"),
        ({"method": "smc", "twist": "x"}, "twist must be a samplers.smc.Potential"),
        ({"method": "daemon", "tilt": 3}, "tilt must be a samplers.daemon.Tilt"),
        ({"reward": lambda: 0.0}, "reward must be a function of a text"),
        ({"check": lambda a, b, c: True}, "check must be a function of a text"),
        ({"reward": lambda text: math.nan}, "must be a finite number or -inf"),
        ({"prompt": ["one", "two"]}, "one prompt"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str, plain_model: Model) -> None:
    with pytest.raises(ValueError, match=message):
        run(plain_model, **options)


def test_too_little_room(plain_model: Model) -> None:
    with pytest.raises(ConstraintError, match="the shortest text that fits the constraint needs"):
        run(plain_model, constraint=["a rather long answer to such a short question"], max_tokens=3)
    with pytest.raises(DeadEnd, match=r"rejection: none of the 2 particles .* \(max_trials\)"):
        run(plain_model, "rejection", particles=2, max_trials=2)


def test_bare_language_models() -> None:
    problem = case("free")
    found = guided.sample(problem.model, (), None, method="smc", particles=4, max_tokens=3, seed=0)
    assert all(item.tokens[-1] == END and item.text == " ".join(map(str, item.tokens)) for item in found.texts if item.finished)
    with pytest.raises(ConstraintError, match="must be compiled"):
        guided.sample(problem.model, (), WORDS)
    with pytest.raises(ValueError, match="sequence of token ids"):
        guided.sample(problem.model, "text", None)


# ---------------------------------------------------------------- the command
def call(*arguments: str, stdin: str = "") -> Any:
    result = CliRunner(env={"COLUMNS": "160"}).invoke(app, ["sample", *arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_command(model_folder: Path, tmp_path: Path) -> None:
    judges = tmp_path / "judges.py"
    judges.write_text("def score(text): return 9.0 * (text == 'no')\ndef fine(text): return not text.startswith('y')\nnumber = 3\n")
    base = ["Well?", "-m", str(model_folder), "-c", "yes", "-c", "no", "-c", "maybe so", "--max-tokens", "10", "--seed", "3", "-n", "6"]
    table = call(*base, "--method", "smc", "-o", "block=word", "-o", "moves=1")
    assert table.exit_code == 0 and "weight" in table.stdout and "smc: log Z" in table.stdout
    data = json.loads(call(*base, "--json", "--reward", f"{judges}:score", "--check", f"{judges}:fine").stdout)
    assert data["method"] == "awrs" and data["seed"] == 3 and {t["text"] for t in data["texts"]} <= {"no", "maybe so"}
    drawn = call(*base, "--draw", "4")
    assert len(drawn.stdout.splitlines()) == 4 and set(drawn.stdout.splitlines()) <= set(WORDS) and "log Z" in drawn.stderr
    mistyped = call(*base, "--method", "cars", "-o", "max_trials=many")
    assert mistyped.exit_code == 2 and "max_trials must be a whole number" in mistyped.stderr
    refused = call(*base, "--method", "smc", "-o", "colour=red")
    assert refused.exit_code == 2 and "no option 'colour'; it takes potential" in refused.stderr


def test_judges_and_options_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "judges.py"
    path.write_text("number = 3\ndef double(x): return 2 * x\n")
    assert function_of(f"{path}:double")(4) == 8
    for bad, message in (("nothing", "FILE.py:NAME"), (f"{path}:number", "no function"), (f"{tmp_path / 'none.py'}:f", "no Python file")):
        with pytest.raises(ConstraintError, match=message):
            function_of(bad)
    assert options_of(["a=1", "b=word", "ess-threshold=0.5", "c=true"]) == {"a": 1, "b": "word", "ess_threshold": 0.5, "c": True}
    with pytest.raises(ConstraintError, match="NAME=VALUE"):
        options_of(["block"])
    with pytest.raises(ConstraintError, match="give --seed"):
        options_of(["seed=1"])
