"""Choosing among whole texts: best of n, rejection on the way, MBR, votes, CoT-decoding, answers, utilities."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from typing import Any

import jsonschema
import pytest

from grammars import JsonSchema, Vocabulary
from grammars.errors import ConstraintError
from guided.evaluation.toys import Tokens, case
from guided.evaluation.toys import vocabulary as toy_vocabulary
from samplers.importance import importance
from samplers.models import HFModel, TabularModel
from samplers.scores import Function
from samplers.search.answers import Answer, JsonAnswer, PatternAnswer, whole_text
from samplers.search.best_of_n import best_of_n, speculative_rejection
from samplers.search.cot import cot_decoding, margin
from samplers.search.frontier import Progress, SearchBudget, SearchResult
from samplers.search.mbr import expected_utilities, mbr
from samplers.search.mcts import mcts
from samplers.search.self_consistency import adaptive_consistency, ahead, self_consistency
from samplers.search.trace import Trace
from samplers.search.utilities import bleu, chrf, edit_similarity, exact_match, token_f1
from samplers.target import Target
from tests import tiny

MODEL = TabularModel.random(5, 7, 11)
FREE = Target(MODEL, (), max_tokens=8)
ZEROS = Function(lambda tokens: float(tokens.count(0)), on="tokens")


def outcome(result: SearchResult) -> list[tuple[Tokens, float]]:
    return [(found.tokens, found.score) for found in result.found]


def length(tokens: Tokens) -> Answer:
    return Answer(len(tokens), 0, len(tokens))


# ---------------------------------------------------------------- best of n
def test_best_of_n_is_ranked_and_grows() -> None:
    few, many = (best_of_n(FREE, reward=ZEROS, n=n, seed=3) for n in (4, 12))
    assert len(few.found) == 4 and all(a.score >= b.score for a, b in zip(many.found, many.found[1:]))
    assert all(found.score == found.tokens.count(0) for found in many.found)
    assert Counter(found.tokens for found in few.found) <= Counter(found.tokens for found in many.found)


def test_the_targets_own_reward_is_used() -> None:
    problem = case("late reward")
    result = best_of_n(problem.target(), n=8)
    assert problem.reward is not None
    assert all(found.score == problem.reward(found.tokens, True) for found in result.found)
    with pytest.raises(ValueError, match="give a reward"):
        best_of_n(FREE, n=2)
    with pytest.raises(ValueError, match="not a number"):
        best_of_n(FREE, reward=Function(lambda tokens: math.nan, on="tokens"), n=2)


def test_samples_of_another_sampler() -> None:
    problem = case("random, set")
    samples = importance(problem.target(), 30, seed=1)
    best = best_of_n(problem.target(), reward=Function(lambda candidate: problem.masses[candidate.tokens], on="candidate"), samples=samples)
    expected = max((s.tokens for s in samples.samples if s.log_weight > -math.inf), key=lambda tokens: problem.masses[tokens])
    assert best.best.tokens == expected and best.forwards == 0
    voted = self_consistency(problem.target(), extract=whole_text, samples=samples)
    weights: Counter[Tokens] = Counter()
    for sample, weight in zip(samples.samples, samples.weights.tolist()):
        weights[sample.tokens] += weight
    assert [found.score for found in voted.found] == pytest.approx(sorted((w for w in weights.values() if w > 0), reverse=True))


def test_rejection_without_a_share_is_best_of_n() -> None:
    plain = best_of_n(FREE, reward=ZEROS, n=16, seed=2)
    kept = speculative_rejection(FREE, reward=ZEROS, n=16, alpha=0.0, room=1, seed=2)
    assert sorted(outcome(plain)) == sorted(outcome(kept)) and kept.details["rejected"] == 0


def test_rejection_gives_up_the_weak_ones() -> None:
    plain = best_of_n(FREE, reward=ZEROS, n=32, seed=2)
    result = speculative_rejection(FREE, reward=ZEROS, n=32, alpha=0.5, room=24, seed=2)
    assert result.complete and result.details["rejections"] > 0
    assert len(result.found) + result.details["rejected"] == 32
    assert result.tokens < plain.tokens
    assert {found.tokens for found in result.found} <= {found.tokens for found in plain.found}
    means = [sum(f.score for f in r.found) / len(r.found) for r in (plain, result)]
    assert means[1] > means[0]


def test_rejection_works_where_all_are_equal() -> None:
    same = Function(lambda tokens: 1.0, on="tokens")
    result = speculative_rejection(FREE, reward=same, n=16, alpha=0.2, room=8, seed=2)
    assert result.complete and result.best.finished and result.details["rejected"] > 0
    wrong: list[dict[str, Any]] = [{"alpha": 1.0}, {"alpha": -0.1}, {"room": 0}, {"n": 0}]
    for bad in wrong:
        with pytest.raises(ValueError, match=next(iter(bad))):
            speculative_rejection(FREE, reward=same, **{"n": 4, **bad})


# ---------------------------------------------------------------- votes
def test_votes_are_counted() -> None:
    result = self_consistency(FREE, extract=length, n=40, seed=1)
    drawn = best_of_n(FREE, reward=ZEROS, n=40, seed=1)
    counts = Counter(len(found.tokens) for found in drawn.found)
    assert {len(found.tokens): found.score for found in result.found} == pytest.approx({k: v / 40 for k, v in counts.items()})
    for found in result.found:
        same = [other for other in drawn.found if len(other.tokens) == len(found.tokens)]
        assert found.logprob == pytest.approx(max(other.logprob for other in same))


def test_votes_have_weights() -> None:
    drawn = best_of_n(FREE, reward=ZEROS, n=30, seed=1)
    by_probability: Counter[int] = Counter()
    by_reward: Counter[int] = Counter()
    for found in drawn.found:
        by_probability[len(found.tokens)] += math.exp(found.logprob / len(found.tokens))  # type: ignore[assignment]
        by_reward[len(found.tokens)] += found.tokens.count(0)
    for weights, sums in (("probability", by_probability), (ZEROS, by_reward)):
        result = self_consistency(FREE, extract=length, n=30, weights=weights, seed=1)  # type: ignore[arg-type]
        total = sum(sums.values())
        assert {len(f.tokens): f.score for f in result.found} == pytest.approx({k: v / total for k, v in sums.items()})
    with pytest.raises(ValueError, match="at least 0"):
        self_consistency(FREE, extract=length, n=4, weights=Function(lambda tokens: -1.0, on="tokens"))
    with pytest.raises(ValueError, match="weights"):
        self_consistency(FREE, extract=length, n=4, weights="loud")  # type: ignore[arg-type]


def test_texts_without_an_answer_do_not_vote() -> None:
    result = self_consistency(FREE, extract=lambda tokens: length(tokens) if 0 in tokens else None, n=40, seed=1)
    assert result.details["unanswered"] > 0
    voted = [found for found in result.found if 0 in found.tokens]
    assert sum(found.score for found in voted) == pytest.approx(1.0)
    assert all(found.score == 0 for found in result.found if 0 not in found.tokens) and 0 in result.best.tokens


def test_ahead_is_the_tail_of_a_beta() -> None:
    def integral(a: int, b: int, steps: int = 20_000) -> float:
        points = [(i + 0.5) / steps for i in range(steps)]
        density = [x**a * (1 - x) ** b for x in points]
        return sum(d for d, x in zip(density, points) if x > 0.5) / sum(density)

    for a, b in ((0, 0), (3, 0), (5, 2), (2, 5), (7, 7)):
        assert ahead(a, b) == pytest.approx(integral(a, b), abs=1e-4)


def test_drawing_stops_when_the_vote_is_clear() -> None:
    clear = adaptive_consistency(FREE, extract=lambda tokens: Answer(0, 0, 1), n=40, batch=2, seed=1)
    assert clear.details["texts"] == 4 and clear.details["share"] == 1.0  # ahead(4, 0) = 31/32 is the first above 0.95
    split = adaptive_consistency(FREE, extract=whole_text, n=12, batch=5, confidence=0.999, seed=1)
    assert split.details["texts"] == 12
    plain = self_consistency(FREE, extract=whole_text, n=12, seed=1)
    assert {found.tokens: found.score for found in split.found} == pytest.approx({f.tokens: f.score for f in plain.found})


# ---------------------------------------------------------------- minimum Bayes risk
def read(tokens: Tokens) -> str:
    return " ".join("abcd"[token] for token in tokens if token < 4)


@pytest.mark.parametrize("utility", [exact_match, token_f1, edit_similarity, chrf, bleu])
def test_mbr_is_the_mean_over_all_pairs(utility: Any) -> None:
    result = mbr(FREE, n=20, utility=utility, texts=read, seed=4)
    pool = [read(found.tokens) for found in best_of_n(FREE, reward=ZEROS, n=20, seed=4).found]
    expected = {text: sum(utility(text, other) for other in pool) / 20 for text in pool}
    assert {read(found.tokens): found.score for found in result.found} == pytest.approx(expected)
    assert result.best.score == max(found.score for found in result.found)


def test_equal_texts_and_symmetric_pairs_are_computed_once() -> None:
    result = mbr(FREE, n=40, utility=token_f1, texts=read, seed=4)
    different = int(result.details["different"])
    assert different < 40 and result.details["utilities"] == different * (different + 1) / 2
    assert mbr(FREE, n=40, utility=chrf, texts=read, seed=4).details["utilities"] == different**2


def test_fewer_references() -> None:
    result = mbr(FREE, n=40, utility=chrf, references=5, texts=read, seed=4)
    assert result.details["utilities"] <= 5 * result.details["different"]
    assert outcome(result) == outcome(mbr(FREE, n=40, utility=chrf, references=5, texts=read, seed=4))
    assert expected_utilities(["a", "b"], [(0, 0.25), (1, 0.75)], exact_match, symmetric=True) == [0.25, 0.75]


def test_exact_match_of_answers_is_a_majority_vote() -> None:
    vote = self_consistency(FREE, extract=length, n=40, seed=1)
    same = mbr(FREE, n=40, utility=exact_match, read=len, seed=1)
    assert outcome(same) == [(tokens, pytest.approx(score)) for tokens, score in outcome(vote)]


def test_mbr_reads_the_constraints_vocabulary() -> None:
    assert mbr(case("random, set").target(), n=10).best.score > 0
    with pytest.raises(ConstraintError, match="vocabulary"):
        mbr(FREE, n=4)


# ---------------------------------------------------------------- utilities
def test_utilities_are_one_for_equal_texts_and_between() -> None:
    source = random.Random(3)
    texts = [" ".join(source.choices(["the", "cat", "sat", "on", "mat"], k=source.randrange(6))) for _ in range(12)]
    for utility in (exact_match, token_f1, edit_similarity, chrf, bleu):
        for a in texts:
            assert utility(a, a) == 1.0
            for b in texts:
                assert 0 <= utility(a, b) <= 1 + 1e-12
    for utility in (exact_match, token_f1, edit_similarity):
        assert all(utility(a, b) == pytest.approx(utility(b, a)) for a in texts for b in texts)


def test_known_values() -> None:
    assert edit_similarity("kitten", "sitting") == pytest.approx(1 - 3 / 7)
    assert token_f1("the cat sat", "The cat ran off") == pytest.approx(2 * 2 / 7)
    # two unigrams and one bigram of ab|bc in common: precision 2/3 and 1/2, recall 2/3 and 1/2; trigrams: 0 of 1
    assert chrf("abc", "bcd", order=3) == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    assert chrf("abcd", "ab", order=1, beta=1.0) == pytest.approx(2 * 0.5 * 1 / 1.5)
    assert bleu("the cat", "the cat sat") == pytest.approx(math.exp(1 - 3 / 2))
    assert bleu("the dog sat", "the cat sat") == pytest.approx((2 / 3 * 1 / 3 * 1 / 2) ** (1 / 3))
    assert bleu("x y", "a b") == chrf("x", "a") == edit_similarity("x", "a") == token_f1("", "a") == 0.0


# ---------------------------------------------------------------- answers
BYTES = Vocabulary([bytes([b]) for b in range(128)] + [b"12", b"true", b""], eos_token_ids=[130])


def ids(text: str) -> Tokens:
    return (*BYTES.encode(text.encode()), 130)


def test_patterns_give_the_tokens_of_the_answer() -> None:
    last = PatternAnswer(r"-?[0-9]+", BYTES)
    found = last(ids("12 and -3 x 124."))
    assert found is not None and found.key == "124"
    assert BYTES.decode(ids("12 and -3 x 124.")[found.start : found.end]) == b"124" and found.end - found.start == 2
    first = PatternAnswer(r"is ([a-z]+)", BYTES, last=False, key=str.upper)(ids("it is so, it is not"))
    assert first is not None and first.key == "SO" and first.end - first.start == 2
    assert last(ids("none")) is None


@pytest.mark.parametrize(
    ("pointer", "key", "written"),
    [
        ("", '{"a": {"b/c": [1, {"d": "x, \\"y\\""}]}, "e": true}', None),
        ("/a/b~1c/0", "1", "1"),
        ("/a/b~1c/1/d", '"x, \\"y\\""', '"x, \\"y\\""'),
        ("/e", "true", "true"),
        ("/f", None, None),
        ("/a/b~1c/2", None, None),
        ("/e/0", None, None),
    ],
)
def test_values_in_json(pointer: str, key: str | None, written: str | None) -> None:
    text = ' {"a" : {"b/c":[1, {"d":"x, \\"y\\""} ]}, "e":true}'
    found = JsonAnswer(pointer, BYTES)(ids(text))
    assert (found and found.key) == key
    if found and written:
        assert BYTES.decode(ids(text)[found.start : found.end]).decode() == written


def test_what_is_not_json_has_no_answer() -> None:
    assert JsonAnswer("/a", BYTES)(ids('{"a": 1')) is None
    equal = [JsonAnswer("/a", BYTES)(ids(text)) for text in ('{"a": {"x": 1, "y": 2}}', '{"a":{"y":2,"x":1}}')]
    assert equal[0] is not None and equal[1] is not None and equal[0].key == equal[1].key
    with pytest.raises(ConstraintError, match="slash"):
        JsonAnswer("a", BYTES)


# ---------------------------------------------------------------- CoT-decoding
def test_the_confident_branch_wins_over_the_likely_one() -> None:
    """Token 0 is likelier first, its answer is a guess; behind token 1 the model is sure. Answers are the second tokens."""
    table = {(): [0.6, 0.4, 0.0], (0,): [0.55, 0.45, 0.0], (1,): [0.02, 0.98, 0.0]}
    target = Target(TabularModel(3, 2, lambda prefix: table.get(prefix, [0.0, 0.0, 1.0])), (), max_tokens=3)
    result = cot_decoding(target, extract=lambda tokens: Answer(tokens[1], 1, 2), k=2)
    assert outcome(result) == [((1, 1, 2), pytest.approx(0.96)), ((0, 0, 2), pytest.approx(0.1))]


def test_branches_with_one_answer_are_added_up() -> None:
    result = cot_decoding(FREE, extract=lambda tokens: Answer("one", 0, len(tokens)), k=3)
    single = cot_decoding(FREE, extract=lambda tokens: Answer("one", 0, len(tokens)), k=3, aggregate=False)
    assert len(result.found) == 1 and result.details["branches"] == 3 == len(single.found)
    assert result.best.score == pytest.approx(sum(found.score for found in single.found))
    assert result.best.tokens == single.best.tokens
    mute = cot_decoding(FREE, extract=lambda tokens: None, k=3)
    assert [found.score for found in mute.found] == [0.0] * 3


def test_margins_are_those_of_allowed_tokens() -> None:
    problem = case("distortion")
    result = cot_decoding(problem.target(), extract=lambda tokens: Answer(tokens, 1, 2), k=5)
    assert len(result.found) == 2 and all(found.score == pytest.approx(1.0) for found in result.found)  # "c" is forced
    logs = [math.log(0.5), math.log(0.3), math.log(0.2)]
    import torch

    assert margin(torch.tensor(logs, dtype=torch.float64)) == pytest.approx(0.2)


# ---------------------------------------------------------------- all of them
def _strategies(target: Target, **given: Any) -> dict[str, SearchResult]:
    seeded = {"seed": 1, **given}
    return {
        "best of n": best_of_n(target, reward=ZEROS, n=6, **seeded),
        "rejection": speculative_rejection(target, reward=ZEROS, n=6, room=12, **seeded),
        "vote": self_consistency(target, extract=length, n=6, **seeded),
        "adaptive": adaptive_consistency(target, extract=length, n=6, **seeded),
        "mbr": mbr(target, n=6, read=lambda tokens: tokens, utility=edit_similarity, **seeded),
        "cot": cot_decoding(target, extract=length, k=4, **given),
        "mcts": mcts(target, likelihood=1.0, simulations=12, batch=3, **seeded),
    }


@pytest.mark.parametrize("problem", ["random, grammar", "dead ends", "holes"])
@pytest.mark.parametrize("forwards", [None, 1, 3, 9])
def test_valid_and_within_budgets(problem: str, forwards: int | None) -> None:
    toy = case(problem)
    budget = None if forwards is None else SearchBudget(forwards=forwards)
    for name, result in _strategies(toy.target(), budget=budget).items():
        text = result.best.tokens
        assert result.best.finished and toy.accepts(b"".join(toy_vocabulary().tokens[t] for t in text[:-1])), name
        assert len(text) <= toy.max_tokens
        if forwards is not None:
            assert result.forwards <= forwards + 12 + toy.max_tokens, name


def test_valid_objects_from_a_network() -> None:
    """A tiny random network under a schema, with and without a budget."""
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 4}, "n": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["name", "n"],
        "additionalProperties": False,
    }
    automaton = JsonSchema(schema).compile(BYTES)
    model = HFModel(tiny.llama(131, seed=1, scale=3.0), eos_token_ids=[130])
    for budget in (None, SearchBudget(forwards=15)):
        for name, result in _strategies(Target(model, (65, 66), automaton, max_tokens=28), budget=budget).items():
            finished = [found for found in result.found if found.finished]
            assert result.best.finished, name
            for found in finished:
                jsonschema.validate(json.loads(BYTES.decode(found.tokens[:-1])), schema)


def test_where_the_model_gives_no_way_a_probability() -> None:
    """The model never says what the constraint wants: the shortest text is what is left, not an error and nothing invalid."""
    toy = case("random, set")
    mute = TabularModel(7, 5, lambda prefix: [0.0] * 6 + [1.0])
    for name, result in _strategies(toy.target(model=mute, max_tokens=6)).items():
        assert result.best.finished and result.best.logprob == -math.inf, name
        assert toy.accepts(b"".join(toy_vocabulary().tokens[t] for t in result.best.tokens[:-1])), name


def test_traces_hold_what_was_found_and_given_up() -> None:
    trace = Trace()
    result = speculative_rejection(FREE, reward=ZEROS, n=16, alpha=0.5, room=16, seed=2, trace=trace)
    trace.conclude(result)
    nodes = {node["number"]: node for node in trace.as_dict()["nodes"]}
    assert all(nodes[number]["status"] == "finished" for number in trace.as_dict()["found"])
    rejected = [node for node in nodes.values() if "rejected" in node["note"]]
    assert len(rejected) == result.details["rejected"] and all(node["status"] == "pruned" for node in rejected)
    seen: list[Progress] = []
    mcts(FREE, likelihood=1.0, simulations=10, progress=seen.append)
    assert len(seen) > 3 and seen[-1].best is not None and seen[-1].forwards >= seen[0].forwards


def test_same_seed_same_result() -> None:
    first, again = _strategies(FREE), _strategies(FREE)
    assert {name: outcome(result) for name, result in first.items()} == {name: outcome(result) for name, result in again.items()}
