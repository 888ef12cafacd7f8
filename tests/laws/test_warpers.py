"""Laws of the warpers: each against an independent, slow statement of what it should do, in plain Python; optima by their optimality
conditions and by exhaustion; whole pipelines by sampling."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

from grammars import Automaton, Gbnf, Vocabulary
from samplers.masked import Request, decode
from samplers.sampling import top_k, top_p
from samplers.warpers import (
    CONSTRAINT,
    BestOfK,
    Bregman,
    Entropy,
    EpsilonCutoff,
    EtaCutoff,
    MinP,
    NoRepeatNGram,
    OccurrencePenalty,
    PenaltyDecoding,
    Pipeline,
    RepetitionPenalty,
    Row,
    Simplex,
    Temperature,
    TopK,
    TopNSigma,
    TopP,
    Tsallis,
    Typical,
    Warper,
)
from samplers.warpers.best_of_k import Coverage
from samplers.warpers.bregman import bregman
from samplers.warpers.simplex import Regulariser, solve
from tests import tiny

Law = dict[int, float]
Logits = list[float]


# ---------------------------------------------------------------- slow statements of the laws
def softmax(scores: dict[int, float]) -> Law:
    best = max(scores.values())
    weights = {v: math.exp(s - best) for v, s in scores.items()}
    total = math.fsum(weights.values())
    return {v: w / total for v, w in weights.items()}


def finite(scores: Logits) -> dict[int, float]:
    return {v: s for v, s in enumerate(scores) if s > -math.inf}


def restricted(p: Law, keep: Callable[[int], bool]) -> Law:
    kept = {v: q for v, q in p.items() if keep(v)}
    total = math.fsum(kept.values())
    return {v: q / total for v, q in kept.items()}


def entropy(p: Law) -> float:
    return -math.fsum(q * math.log(q) for q in p.values())


def until(p: Law, order: list[int], mass: float) -> Law:
    kept, held = set(), 0.0
    for v in order:
        kept.add(v)
        held += p[v]
        if held >= mass:
            break
    return restricted(p, kept.__contains__)


def slow_top_k(scores: Logits, k: int) -> Law:
    p = softmax(finite(scores))
    kth = sorted(p.values(), reverse=True)[:k][-1]
    return restricted(p, lambda v: p[v] >= kth)


def slow_top_p(scores: Logits, mass: float) -> Law:
    p = softmax(finite(scores))
    return until(p, sorted(p, key=lambda v: -p[v]), mass)


def slow_typical(scores: Logits, mass: float) -> Law:
    p = softmax(finite(scores))
    h = entropy(p)
    return until(p, sorted(p, key=lambda v: abs(-math.log(p[v]) - h)), mass)


def slow_cutoff(scores: Logits, epsilon: float, eta: bool) -> Law:
    p = softmax(finite(scores))
    threshold = min(epsilon, math.sqrt(epsilon) * math.exp(-entropy(p))) if eta else epsilon
    best = max(p.values())
    return restricted(p, lambda v: p[v] >= threshold or p[v] == best)


def slow_min_p(scores: Logits, share: float) -> Law:
    p = softmax(finite(scores))
    return restricted(p, lambda v: p[v] >= share * max(p.values()))


def slow_sigma(scores: Logits, n: float) -> Law:
    s = finite(scores)
    mean = math.fsum(s.values()) / len(s)
    deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in s.values()) / max(1, len(s) - 1))
    return restricted(softmax(s), lambda v: s[v] >= max(s.values()) - n * deviation)


TEXT = [2, 5, 3, 9, 5, 3, 9, 5]
PROMPT = 3


def slow_repetition(scores: Logits, penalty: float, seen: list[int]) -> Law:
    s = finite(scores)
    return softmax({v: (x if v not in seen else x / penalty if x > 0 else x * penalty) for v, x in s.items()})


def slow_occurrences(scores: Logits, frequency: float, presence: float, text: list[int]) -> Law:
    s = finite(scores)
    return softmax({v: x - frequency * text.count(v) - presence * (v in text) for v, x in s.items()})


def slow_no_repeat(scores: Logits, n: int) -> Law:
    grams = {tuple(TEXT[i : i + n]) for i in range(len(TEXT) - n + 1)}
    end = tuple(TEXT[len(TEXT) - n + 1 :])
    s = finite(scores)
    kept = {v: x for v, x in s.items() if (*end, v) not in grams}
    return softmax(kept or s)


def slow_penalty_decoding(scores: Logits, penalty: float, window: int, ends: list[int], length: int, strength: float) -> Law:
    seen = TEXT[-window:]
    made = len(TEXT) - PROMPT
    s = {v: (x if v not in seen else x / penalty if x > 0 else x * penalty) for v, x in finite(scores).items()}
    return softmax({v: x - (strength * max(0, length - made) / length if v in ends else 0) for v, x in s.items()})


CASES: dict[str, tuple[Warper, Callable[[Logits], Law]]] = {
    "temperature": (Temperature(0.7), lambda s: softmax({v: x / 0.7 for v, x in finite(s).items()})),
    "greedy": (Temperature(0), lambda s: {max(finite(s), key=lambda v: s[v]): 1.0}),
    "top-k": (TopK(4), lambda s: slow_top_k(s, 4)),
    "top-p": (TopP(0.75), lambda s: slow_top_p(s, 0.75)),
    "min-p": (MinP(0.2), lambda s: slow_min_p(s, 0.2)),
    "min-p 0": (MinP(0), lambda s: softmax(finite(s))),
    "epsilon": (EpsilonCutoff(0.06), lambda s: slow_cutoff(s, 0.06, False)),
    "epsilon, none is probable": (EpsilonCutoff(0.999), lambda s: slow_cutoff(s, 0.999, False)),
    "eta": (EtaCutoff(0.3), lambda s: slow_cutoff(s, 0.3, True)),
    "typical": (Typical(0.6), lambda s: slow_typical(s, 0.6)),
    "top-n-sigma": (TopNSigma(1.2), lambda s: slow_sigma(s, 1.2)),
    "repetition": (RepetitionPenalty(1.8), lambda s: slow_repetition(s, 1.8, TEXT)),
    "repetition, generated": (RepetitionPenalty(1.8, prompt=False), lambda s: slow_repetition(s, 1.8, TEXT[PROMPT:])),
    "repetition, window": (RepetitionPenalty(1.8, window=2), lambda s: slow_repetition(s, 1.8, TEXT[-2:])),
    "occurrences": (OccurrencePenalty(0.4, 0.9), lambda s: slow_occurrences(s, 0.4, 0.9, TEXT[PROMPT:])),
    "occurrences, all": (OccurrencePenalty(0.4, -0.9, prompt=True), lambda s: slow_occurrences(s, 0.4, -0.9, TEXT)),
    "occurrences, window": (OccurrencePenalty(0.4, window=4), lambda s: slow_occurrences(s, 0.4, 0, TEXT[-4:])),
    "no bigram twice": (NoRepeatNGram(2), lambda s: slow_no_repeat(s, 2)),
    "no unigram twice": (NoRepeatNGram(1), lambda s: slow_no_repeat(s, 1)),
    "penalty decoding": (
        PenaltyDecoding(1.5, 3, eos_token_ids=[0, 7], length=9, strength=4),
        lambda s: slow_penalty_decoding(s, 1.5, 3, [0, 7], 9, 4),
    ),
    "softmax on the simplex": (Simplex(Entropy(0.7)), lambda s: softmax({v: x / 0.7 for v, x in finite(s).items()})),
    "greedy on the simplex": (Simplex(None), lambda s: {max(finite(s), key=lambda v: s[v]): 1.0}),
    "top-k on the simplex": (Simplex(Entropy(), lambda s: top_k(s, 4)), lambda s: slow_top_k(s, 4)),
    "top-p on the simplex": (Simplex(Entropy(), lambda s: top_p(s, 0.75)), lambda s: slow_top_p(s, 0.75)),
    "top-k by Bregman": (Bregman(1.0, k=4), lambda s: slow_top_k(s, 4)),
    "no bonus": (BestOfK(5, bonus=0), lambda s: softmax(finite(s))),
}


@pytest.mark.parametrize("name", CASES)
def test_law_of_a_step(name: str) -> None:
    warper, law = CASES[name]
    generator = random.Random(7)
    for trial in range(20):
        logits = [generator.gauss(0, 2) for _ in range(12)]
        if trial % 2:
            for v in generator.sample(range(12), 6):
                logits[v] = -math.inf
        expected = law(logits)
        got = warper.warp([Row(TEXT, PROMPT)], torch.tensor([logits], dtype=torch.float64)).softmax(-1)[0].tolist()
        assert got == pytest.approx([expected.get(v, 0.0) for v in range(12)], abs=1e-9)
        assert {v for v, q in enumerate(got) if q > 0} == set(expected)


def test_the_slow_laws_tell_the_warpers_apart() -> None:
    """No two of them agree on all inputs, but for those that should: a law that fits anything would prove nothing."""
    same = [
        {"temperature", "softmax on the simplex"},
        {"greedy", "greedy on the simplex", "epsilon, none is probable"},
        {"top-k", "top-k on the simplex", "top-k by Bregman"},
        {"top-p", "top-p on the simplex"},
        {"min-p 0", "no bonus"},
    ]
    generator = random.Random(1)
    inputs = [[generator.gauss(0, 2) for _ in range(12)] for _ in range(20)]
    for a, b in itertools.combinations(CASES, 2):
        if not any({a, b} <= group for group in same):
            assert any(CASES[a][1](s) != pytest.approx(CASES[b][1](s)) for s in inputs), (a, b)


# ---------------------------------------------------------------- optima on the simplex
def objective(q: torch.Tensor, s: torch.Tensor, name: str, p: torch.Tensor) -> float:
    live = q > 0
    entropic = float(torch.special.xlogy(q, q).sum())
    value = float((q * s)[live].sum())
    if name == "entropy":
        return value - 0.8 * entropic
    if name.startswith("tsallis"):
        alpha = float(name.split()[1])
        return value - 1.3 * float((q**alpha - q).sum()) / (alpha * (alpha - 1))
    return value - 0.9 * entropic + 2.5 * float((p * (1 - (1 - q) ** 4)).sum())


REGULARISERS = ["entropy", "tsallis 2", "tsallis 1.5", "tsallis 3", "coverage"]


def regulariser(name: str, p: torch.Tensor) -> Regulariser:
    if name == "entropy":
        return Entropy(0.8)
    if name.startswith("tsallis"):
        return Tsallis(float(name.split()[1]), 1.3)
    return Coverage(4, 2.5, p, 0.9)


@pytest.mark.parametrize("name", REGULARISERS)
def test_optimality_conditions(name: str) -> None:
    """Karush-Kuhn-Tucker: one slope over the support, none steeper outside; and no perturbation on the simplex does better."""
    generator = torch.Generator().manual_seed(5)
    for width in (1, 2, 9, 300):
        s = 2 * torch.randn((4, width), generator=generator, dtype=torch.float64)
        s[1, width // 2 + 1 :] = float("-inf")
        p = s.softmax(-1)
        omega = regulariser(name, p)
        q = solve(s, omega)
        assert torch.allclose(q.sum(-1), torch.ones(4, dtype=torch.float64), atol=1e-12) and bool((q >= 0).all())
        assert bool((q[s == float("-inf")] == 0).all())
        slack = s - omega.slope(q.clamp(min=1e-300))
        for row in range(4):
            live = q[row] > 0
            nu = slack[row][live].median()
            assert torch.allclose(slack[row][live], nu.expand(int(live.sum())), atol=1e-7)
            outside = ~live & (s[row] > float("-inf"))
            if name.startswith("tsallis") and bool(outside.any()):
                at_zero = s[row][outside] - omega.slope(torch.zeros(int(outside.sum()), dtype=torch.float64))
                assert bool((at_zero <= nu + 1e-7).all())
        for _ in range(40):
            towards = torch.zeros_like(q)
            towards[s > float("-inf")] = torch.rand(int((s > float("-inf")).sum()), generator=generator, dtype=torch.float64)
            other = 0.95 * q + 0.05 * towards / towards.sum(-1, keepdim=True)
            for row in range(4):
                assert objective(other[row], s[row], name, p[row]) <= objective(q[row], s[row], name, p[row]) + 1e-9


def test_sparsemax_and_entmax_in_closed_form() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        s = torch.randn((1, 15), generator=generator, dtype=torch.float64)
        z = s[0].sort(descending=True).values
        # Martins, Astudillo 2016: the projection on the simplex
        k = max(i for i in range(1, 16) if 1 + i * z[i - 1] > z[:i].sum())
        tau = (z[:k].sum() - 1) / k
        assert torch.allclose(solve(s, Tsallis(2.0))[0], (s[0] - tau).clamp(min=0), atol=1e-12)
        # Peters, Niculae, Martins 2019, for alpha = 1.5: p = (s / 2 - tau)_+^2
        half = solve(s, Tsallis(1.5))[0]
        live = half > 0
        tau15 = (s[0][live] / 2 - half[live].sqrt()).mean()
        assert torch.allclose(half, (s[0] / 2 - tau15).clamp(min=0) ** 2, atol=1e-10)
    assert torch.allclose(solve(s, Tsallis(1.0001)), s.softmax(-1), atol=1e-3), "alpha towards 1 is softmax"


def test_best_of_k_raises_the_coverage() -> None:
    scores = torch.tensor([[3.0, 2.0, 1.5, 1.0, -2.0, -4.0]], dtype=torch.float64)
    p = scores.softmax(-1)[0]
    q = BestOfK(6, bonus=3.0).warp([], scores).softmax(-1)[0]

    def coverage(one: torch.Tensor) -> float:
        return float((p * (1 - (1 - one) ** 6)).sum())

    assert coverage(q) > coverage(p) + 0.01
    assert q[0] < p[0] and q[1] > p[1], "mass goes from what six draws meet anyway to what they would miss"
    few = BestOfK(6, bonus=3.0, candidates=3).warp([], scores).softmax(-1)[0]
    assert few[3:].sum() == 0


@pytest.mark.parametrize(
    ("alpha", "dual"), [(0.5, False), (1.0, False), (1.5, False), (2.0, False), (3.0, False), (1.5, True), (2.0, True)]
)
def test_bregman_against_exhaustion(alpha: float, dual: bool) -> None:
    """Every support of a small distribution, each with the optimality condition of its renormalisation solved on its own."""

    def phi(x: float) -> float:
        return x * math.log(x) if alpha == 1 and x else 0.0 if alpha == 1 else x**alpha / (alpha * (alpha - 1))

    def slope(x: float) -> float:
        return math.log(x) + 1 if alpha == 1 else x ** (alpha - 1) / (alpha - 1) if x or alpha > 1 else math.inf

    def distance(x: float, y: float) -> float:
        return phi(x) - phi(y) - (slope(y) * (x - y) if x != y else 0.0)

    def nearest(ps: list[float]) -> list[float]:
        """Coordinate-free descent: exchange mass between pairs until nothing gains."""
        q = [p / sum(ps) for p in ps]
        step = 0.1
        best = total(ps, q)
        while step > 1e-9:
            moved = False
            for i, j in itertools.permutations(range(len(q)), 2):
                if q[i] > step:
                    q[i], q[j] = q[i] - step, q[j] + step
                    new = total(ps, q)
                    if new < best - 1e-16:
                        best, moved = new, True
                    else:
                        q[i], q[j] = q[i] + step, q[j] - step
            if not moved:
                step /= 2
        return q

    def total(ps: list[float], q: list[float]) -> float:
        return sum(distance(p, x) if dual else distance(x, p) for p, x in zip(ps, q))

    generator = random.Random(3)
    for price in (0.05,) if dual else (0.005, 0.05):
        weights = [generator.expovariate(1) ** 2 + 1e-3 for _ in range(4)]
        p = [w / sum(weights) for w in weights]
        best_value, best_q = math.inf, [0.0] * 4
        for size in range(1, 5):
            for support in itertools.combinations(range(4), size):
                q = nearest([p[i] for i in support])
                full = [0.0] * 4
                for i, x in zip(support, q):
                    full[i] = x
                value = total(p, full) + price * size
                if value < best_value - 1e-12:
                    best_value, best_q = value, full
        got = bregman(torch.tensor(p, dtype=torch.float64), alpha, price, dual)
        assert got.tolist() == pytest.approx(best_q, abs=1e-5)


@pytest.mark.parametrize(("alpha", "dual"), [(0.5, False), (1.0, False), (1.7, False), (2.5, False), (1.3, True), (2.0, True)])
def test_binary_search_finds_the_best_size(alpha: float, dual: bool) -> None:
    generator = torch.Generator().manual_seed(11)
    width = 10 if dual and alpha != 2 else 24  # a dual without a closed form is slow
    for price in (1e-3, 1e-2):
        p = (3 * torch.randn(width, generator=generator, dtype=torch.float64)).softmax(-1)
        sizes = []
        for k in range(1, width + 1):
            q = bregman(p, alpha, price, dual, k=k)
            live = q > 0

            def phi(x: torch.Tensor) -> torch.Tensor:
                return torch.special.xlogy(x, x) if alpha == 1 else x**alpha / (alpha * (alpha - 1))

            def slope(x: torch.Tensor) -> torch.Tensor:
                return x.log() + 1 if alpha == 1 else x ** (alpha - 1) / (alpha - 1)

            x, y = (p, q) if dual else (q, p)
            linear = torch.where(x == y, torch.zeros_like(x), slope(y) * (x - y))
            sizes.append((float((phi(x) - phi(y) - linear).sum()) + price * int(live.sum()), k))
        assert int((bregman(p, alpha, price, dual) > 0).sum()) == min(sizes)[1]


# ---------------------------------------------------------------- pipelines, by sampling
TOKENS = [b"a", b"b", b"c", b"ab", b"bc", b"abc", b"", b"<pad>"]
END = 6
SAMPLES = 4_000
Text = tuple[int, ...]


@pytest.fixture(scope="module")
def automaton() -> Automaton:
    vocabulary = Vocabulary(TOKENS, eos_token_ids=[END], special_token_ids=[7])
    return Gbnf('root ::= "a" ("b" | "bc" "a"? | "bb"){0,2}').compile(vocabulary)


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny.llama(8, seed=4, scale=4.0)


def chi_square(counts: Counter[Text], expected: dict[Text, float]) -> tuple[float, float]:
    """Statistic (rare texts put together) and the value that it exceeds once in about a million times (Wilson, Hilferty 1931)."""
    rare = {s for s, p in expected.items() if p * SAMPLES < 5}
    cells = [(counts[s], p * SAMPLES) for s, p in expected.items() if s not in rare]
    if rare:
        cells.append((sum(counts[s] for s in rare), sum(expected[s] for s in rare) * SAMPLES))
    degrees = max(1, len(cells) - 1)
    statistic = sum((seen - e) ** 2 / max(e, 1e-9) for seen, e in cells)
    return statistic, degrees * (1 - 2 / (9 * degrees) + 4.75 * math.sqrt(2 / (9 * degrees))) ** 3


def law(model: Any, automaton: Automaton, step: Callable[[Logits, set[int], Text], Law]) -> dict[Text, float]:
    """Probability of every text, from the slow law of a step: ``step(logits, allowed, text)``."""
    found: dict[Text, float] = {}
    todo: list[tuple[Text, int, float]] = [((), automaton.start, 1.0)]
    while todo:
        ids, state, p = todo.pop()
        with torch.inference_mode():
            logits = model(torch.tensor([[3, *ids]])).logits[0, -1].double().tolist()
        allowed = {t for t in range(8) if automaton.allows(state, t)}
        for token, q in step(logits, allowed, ids).items():
            if token == END:
                found[(*ids, token)] = p * q
            else:
                todo.append(((*ids, token), automaton.advance(state, token), p * q))
    return found


def masked(scores: Logits, allowed: set[int]) -> Logits:
    return [s if v in allowed else -math.inf for v, s in enumerate(scores)]


def back(p: Law) -> Logits:
    return [math.log(p[v]) if p.get(v, 0) > 0 else -math.inf for v in range(8)]


def mask_first(logits: Logits, allowed: set[int], text: Text) -> Law:
    return slow_top_p(back(softmax({v: s / 1.5 for v, s in finite(masked(logits, allowed)).items()})), 0.8)


def mask_last(logits: Logits, allowed: set[int], text: Text) -> Law:
    left = masked(back(slow_top_p(back(softmax({v: s / 1.5 for v, s in finite(logits).items()})), 0.8)), allowed)
    return softmax(finite(left)) if finite(left) else softmax(finite(masked(logits, allowed)))


def mask_between(logits: Logits, allowed: set[int], text: Text) -> Law:
    seen = {3, *text}
    penalised = [s if v not in seen else s / 1.5 if s > 0 else s * 1.5 for v, s in enumerate(logits)]
    return slow_min_p(masked(penalised, allowed), 0.3)


PIPELINES: dict[str, tuple[Pipeline, Callable[[Logits, set[int], Text], Law]]] = {
    "mask first": (Pipeline([Temperature(1.5), TopP(0.8)]), mask_first),
    "mask last": (Pipeline([Temperature(1.5), TopP(0.8), CONSTRAINT]), mask_last),
    "mask between": (Pipeline([RepetitionPenalty(1.5), CONSTRAINT, MinP(0.3)]), mask_between),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_texts_follow_the_pipeline(name: str, model: Any, automaton: Automaton) -> None:
    pipeline, step = PIPELINES[name]
    expected = law(model, automaton, step)
    assert sum(expected.values()) == pytest.approx(1) and len(expected) > 4
    texts: list[list[int]] = [[] for _ in range(SAMPLES)]
    for steps in decode(model, [Request([3], automaton, 32, seed) for seed in range(SAMPLES)], [END], warpers=pipeline):
        for one in steps:
            texts[one.row].append(one.token)
    counts = Counter(map(tuple, texts))
    assert set(counts) <= set(expected)
    statistic, bound = chi_square(counts, expected)
    assert statistic < bound
    for other in PIPELINES.values():
        if other[1] is not step:
            wrong, bound = chi_square(counts, law(model, automaton, other[1]))
            assert wrong > bound, "the place of the mask makes another law, and the test can tell"
