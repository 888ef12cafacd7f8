"""``guided bench laws``: the run on a few small cases, its tables, and the exact laws that errors are measured against."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from grammars import GuidedError, Regex, Vocabulary
from guided.bench_cli import app
from guided.evaluation import law_report
from guided.evaluation.laws import CONTENDERS, MASKING, REFERENCE, Contender, LawRecord, available, contenders, measured, run_laws
from guided.evaluation.sampling_costs import Checker, checker_costs, exact_law, particle_costs, peer_costs, watched
from guided.evaluation.toys import TOKENS, case, total_variation, vocabulary
from guided.model import Model
from guided.sampling import METHODS
from samplers import methods
from tests import tiny, tokenizers

CHOSEN = (REFERENCE, MASKING, "masked importance sampling")


@pytest.fixture(scope="module")
def records() -> list[LawRecord]:
    return run_laws(contenders(CHOSEN), case_names=["distortion", "prompt"], sizes=(8, 128), runs=6)


def record(records: list[LawRecord], method: str, name: str, n: int) -> LawRecord:
    return next(r for r in records if (r.method, r.case, r.n) == (method, name, n))


# ---------------------------------------------------------------- the run
def test_errors_fall_but_that_of_masking(records: list[LawRecord]) -> None:
    assert len(records) == len(CHOSEN) * 2 * 2 and all(r.status == "ok" for r in records)
    for name in ("distortion", "prompt"):
        for method in (REFERENCE, "masked importance sampling"):
            assert record(records, method, name, 128).distance < record(records, method, name, 8).distance / 1.5
        floor = total_variation(case(name).law, case(name).masked)
        assert record(records, MASKING, name, 128).distance == pytest.approx(floor, abs=0.1)


def test_the_distortion_is_seen_and_corrected(records: list[LawRecord]) -> None:
    assert record(records, MASKING, "distortion", 128).begins_with_a == pytest.approx(0.3, abs=0.07)
    assert record(records, "masked importance sampling", "distortion", 128).begins_with_a == pytest.approx(0.9, abs=0.04)


def test_work_is_counted(records: list[LawRecord]) -> None:
    seen = record(records, "masked importance sampling", "distortion", 128)
    assert seen.forwards == 5, "the empty text, a, b, and what follows c: every prefix of the two texts once"
    assert seen.asked >= seen.forwards and seen.batches == 3 and seen.seconds > 0
    assert record(records, REFERENCE, "distortion", 128).forwards == 0


def test_what_is_refused_is_told_and_left_out_of_means() -> None:
    unbounded = Contender("unbounded", "samplers.rejection:rejection")
    found = run_laws([*contenders([MASKING]), unbounded], case_names=["reward", "distortion"], sizes=(4,), runs=1)
    assert [(r.method, r.case) for r in found if r.status == "refused"] == [("unbounded", "reward")]
    summary = law_report.summary(found, {})
    assert summary["common cases"] == ["distortion"] and "bound" in summary["refused"][0]["reason"]
    assert summary["means"]["unbounded"]["4"]["distance"] == next(r for r in found if r.method == "unbounded" and r.n == 4).distance
    assert "not taken" in law_report.markdown(summary).lower()


def test_contenders_are_methods() -> None:
    known = {m.name for m in methods()} | {REFERENCE}
    ours = [c for c in CONTENDERS if not c.peer]
    assert {c.name for c in ours} <= known
    assert all(available(c) for c in ours)
    assert len({c.name for c in CONTENDERS}) == len(CONTENDERS)


def test_every_method_of_guided_sample_takes_part() -> None:
    taking_part = {(c.where, tuple(c.options.items())) for c in CONTENDERS}
    for name, chosen in METHODS.items():
        fixed = {key: value for key, value in chosen.fixed.items() if (key, value) != ("proposal", "masked")}
        assert (f"{chosen.module}:{chosen.function}", tuple(fixed.items())) in taking_part, name


def test_bad_arguments() -> None:
    with pytest.raises(GuidedError, match="no method is called like"):
        contenders(["no such method"])
    with pytest.raises(GuidedError, match="not available"):
        Contender("missing", "guided.evaluation.no_such_module:f").load()
    for options in ({"sizes": ()}, {"sizes": (0,)}, {"runs": 0}):
        with pytest.raises(ValueError, match="at least 1"):
            run_laws(contenders([MASKING]), **options)


# ---------------------------------------------------------------- tables
def test_tables_and_plot(records: list[LawRecord], tmp_path: Path) -> None:
    summary = law_report.summary(records, {"seed": 7})
    assert json.loads(json.dumps(summary))["sizes"] == [8, 128]
    page = StringIO()
    law_report.show(summary, Console(file=page, width=200))
    text = law_report.markdown(summary)
    for name in CHOSEN:
        assert name in page.getvalue() and f"| {name} |" in text
    assert "P(begins with a)" in text
    law_report.plot(summary, tmp_path / "laws.png", "a title")
    assert (tmp_path / "laws.png").read_bytes().startswith(b"\x89PNG")


def test_command_line(tmp_path: Path) -> None:
    arguments = ["laws", "--case", "distortion", "--method", MASKING, "--sizes", "4,16", "--runs", "2", "--out", str(tmp_path)]
    run = CliRunner().invoke(app, [*arguments, "--json"])
    assert run.exit_code == 0, run.output
    assert json.loads((tmp_path / "laws.json").read_text())["means"].keys() == {MASKING}
    assert (tmp_path / "laws.png").exists()
    assert CliRunner().invoke(app, [*arguments, "--no-plot", "--markdown"]).exit_code == 0
    for wrong in (["--sizes", "four"], ["--case", "none"], ["--sizes", "0"]):
        assert CliRunner().invoke(app, [*arguments, *wrong]).exit_code == 2


# ---------------------------------------------------------------- what costs are measured with
def test_exact_law_is_the_enumerated_one() -> None:
    problem = case("random, set")
    options = ["a", "b", "ab", "abc", "abab", "cab", "bcc", "bcab"]
    law, log_z = exact_law(problem.target(), options, vocabulary())
    assert law == pytest.approx(problem.law) and log_z == pytest.approx(problem.log_z)


def test_checker_tells_what_its_pattern_tells() -> None:
    words = vocabulary()
    checker = Checker("a+(bc)?", words)
    automaton = Regex("a+(bc)?").compile(words)
    for prefix in ((), (0,), (0, 0), (0, 1), (3,), (0, 4)):
        state = automaton.start
        for token in prefix:
            state = automaton.advance(state, token)
        for token in range(len(TOKENS)):
            assert checker(prefix, token) == (automaton.advance(state, token) != 0), (prefix, token)
    assert checker.calls == 6 * len(TOKENS)
    assert not Checker("é", Vocabulary([b"\xc3", b""], eos_token_ids=[1]))((), 0), "half a character is no text"


def test_watched_counts_forwards() -> None:
    model: Any = tiny.llama(12)
    with watched(model) as work, torch.inference_mode():
        model(torch.zeros((2, 5), dtype=torch.long))
        model(input_ids=torch.zeros((1, 3), dtype=torch.long))
    assert (work.calls, work.rows, work.tokens) == (2, 3, 13) and work.seconds > 0
    with torch.inference_mode():
        model(torch.zeros((1, 1), dtype=torch.long))
    assert work.calls == 2


def test_peers_that_are_installed_agree() -> None:
    pytest.importorskip("genlm.control")
    for contender in [c for c in CONTENDERS if c.peer]:
        problem = case("late reward")
        samples = contender.draw(problem, problem.target(), 300, 3)
        assert samples.log_z == pytest.approx(problem.log_z, abs=0.5)
        assert total_variation(measured(samples), problem.law) < 0.3
        again = contender.draw(problem, problem.target(), 300, 3)
        assert [(s.tokens, s.log_weight) for s in samples.samples] == [(s.tokens, s.log_weight) for s in again.samples]


@pytest.fixture(scope="module")
def model() -> Model:
    tokenizer = tokenizers.FAMILIES["gpt2"]()
    return Model(tiny.llama(len(tokenizer), seed=1, positions=1024), tokenizer)


def test_costs_of_a_slow_checker(model: Model) -> None:
    masks, awrs = checker_costs(model, particles=3, max_tokens=4)
    assert masks["method"] == "full masks" and masks["time ratio"] == 1
    assert masks["share of the vocabulary"] > 0.1 and awrs["share of the vocabulary"] < masks["share of the vocabulary"]


def test_costs_of_particles(model: Model) -> None:
    generated, alone, together, smc = particle_costs(model, particles=3, max_tokens=5)
    assert together["calls"] <= 5 and alone["calls"] <= 15 and generated["positions"] > 3 * 20
    assert together["positions"] < alone["positions"] / 2, "the prompt is evaluated once"
    assert generated["time per token, to the first"] == 1 and smc["tokens"] > 0


def test_costs_of_a_small_language(model: Model) -> None:
    rows = peer_costs(model, particles=16, runs=2, peers=False)
    assert [row["method"] for row in rows] == ["AWRS", "SMC", "AWRS-SMC"]
    assert all(0 <= row["total variation"] <= 1 and row["calls"] >= 2 and row["seconds"] > 0 for row in rows)
