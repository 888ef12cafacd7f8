"""Decoding as direct optimisation of metrics (DAEMON): the model, tilted until its texts have the metrics that they should have.

Of all distributions whose expected metrics are ``goals``, the one closest to the model (in ``KL(. || model)``) is the model times
``exp(-sum_k mu_k f_k(x))`` for some coefficients ``mu`` (Ji et al. 2024, arXiv:2310.01041). :func:`fit_tilt` finds them from weighted
samples, and :func:`daemon` draws by sampling-importance-resampling: many candidates, one of them chosen by weight. A :class:`Tilt` is a
reward, so every other sampler draws from the same target, and :func:`daemon` from any target.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from grammars.errors import ConstraintError

from .importance import weighted_walk
from .registry import method
from .smc.proposals import Masked
from .target import Sample, Samples, Target, log_mean, pick, relative_error, require_positive

__all__ = ["Metric", "Tilt", "daemon", "fit_tilt"]

Metric = Callable[[tuple[int, ...]], float]
_NAME = "DAEMON"
_STEPS = 200


@dataclass(frozen=True)
class Tilt:
    """The factor ``exp(-sum_k mu_k f_k(x))``.

    Attributes:
        metrics: functions of the tokens of a finished text, by name.
        coefficients: ``mu`` of each metric, by the same names.
    """

    metrics: Mapping[str, Metric]
    coefficients: Mapping[str, float]

    def log_value(self, tokens: tuple[int, ...]) -> float:
        """Logarithm of the factor of a finished text."""
        return -math.fsum(self.coefficients[name] * metric(tokens) for name, metric in self.metrics.items())

    def target(self, base: Target) -> Target:
        """``base``, its reward raised by the tilt. Prefixes of a text keep the reward that they had."""

        def reward(tokens: tuple[int, ...], finished: bool) -> float:
            return base.potential(tokens, finished) + (self.log_value(tokens) if finished else 0.0)

        return replace(base, reward=reward)


def fit_tilt(samples: Samples, metrics: Mapping[str, Metric], goals: Mapping[str, float]) -> Tilt:
    """The tilt under which the weighted samples have the expected metrics ``goals``.

    Minimises the convex ``log sum_i w_i exp(-mu . (f(x_i) - goals))`` by Newton's method with step halving; its gradient is the difference
    between the goals and the expected metrics.

    Args:
        samples: of the target that is to be tilted. The coefficients are as good as these are many: their expected metrics meet the
            goals, those of the target do so up to the noise of the samples.
        metrics: functions of the tokens of a finished text.
        goals: the expected value that each of them should have; the same names.

    Raises:
        ConstraintError: the names differ, or no weighting of the samples comes to the goals.
        DeadEnd: no sample has a weight.
    """
    if set(metrics) != set(goals) or not metrics:
        raise ConstraintError(f"metrics and goals must have the same names, at least one; they have {sorted(metrics)} and {sorted(goals)}")
    names = list(metrics)
    weights = samples.weights.numpy()
    alive = weights > 0
    texts = [s.tokens for s, kept in zip(samples.samples, alive) if kept]
    values = np.array([[float(metrics[name](tokens)) for name in names] for tokens in texts])
    gaps = values - np.array([goals[name] for name in names])
    scale = np.sqrt(np.average(gaps**2, axis=0, weights=weights[alive]))
    scale[scale == 0] = 1.0
    found = _newton(np.log(weights[alive]), gaps / scale)
    if found is None:
        ranges = ", ".join(f"{n} from {lo:.6g} to {hi:.6g}" for n, lo, hi in zip(names, values.min(axis=0), values.max(axis=0)))
        raise ConstraintError(
            f"no weighting of the {len(texts)} samples has the expected metrics {dict(goals)}: theirs reach, one by one, {ranges}; "
            "set goals within what the samples show, or draw more of them"
        )
    return Tilt(dict(metrics), dict(zip(names, (found / scale).tolist())))


def _newton(logs: NDArray[np.float64], gaps: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """``mu`` with ``sum_i w_i exp(-mu . gaps_i) gaps_i = 0``; ``None`` where there is none (it runs away).

    Args:
        logs: ``float64[n]``, logarithms of the weights.
        gaps: ``float64[n, k]``, of a size about 1.
    """
    mu = np.zeros(gaps.shape[1])

    def state(mu: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = logs - gaps @ mu
        total = float(np.logaddexp.reduce(scores))
        return total, np.exp(scores - total)

    value, law = state(mu)
    for _ in range(_STEPS):
        mean = law @ gaps
        if np.abs(mean).max() < 1e-9:
            return mu
        centred = gaps - mean
        step = np.linalg.lstsq((centred * law[:, None]).T @ centred, mean, rcond=1e-12)[0]
        size = 1.0
        while size > 1e-10:
            tried, law_tried = state(mu + size * step)
            if tried <= value - 1e-4 * size * float(mean @ step):
                break
            size /= 2
        else:
            break
        mu, value, law = mu + size * step, tried, law_tried
    return mu if np.abs(law @ gaps).max() < 1e-6 else None


@method(
    _NAME,
    law="exact in the limit",
    target=(
        "the model given the language, times exp(reward) (of a fitted tilt: expected metrics are the goals), as the number of candidates "
        "grows; weighted by the mean weights of their candidates, texts need no more than many texts"
    ),
    cost="local masking of `candidates` texts for each that is returned, all in one batch",
    paper="Ji et al. 2024, arXiv:2310.01041; Rubin 1988 (sampling-importance-resampling)",
    use='guided.sample(..., method="daemon")',
)
def daemon(target: Target, n: int, *, seed: int, candidates: int = 16, tilt: Tilt | None = None) -> Samples:
    """Draws ``n`` texts, each chosen by weight from candidates of its own.

    Args:
        target: what the texts follow as ``candidates`` grows.
        n: number of texts.
        seed: row ``i`` depends on ``seed``, ``candidates`` and ``i`` only.
        candidates: drawn by local masking for each text.
        tilt: of the target (see :func:`fit_tilt`); ``None`` takes the target as it is.

    Returns:
        :class:`~samplers.target.Samples`. A text's weight is the mean weight of its candidates, so that weighted texts are as those of
        :func:`~samplers.importance.importance`; without their weights texts follow the law of the paper, which the number of candidates
        decides. ``details``: ``kl_unweighted``, the estimated divergence of that law from the target, and ``dead``, texts without a
        candidate in the language.

    Raises:
        ValueError: ``n`` or ``candidates`` below 1.
    """
    require_positive(n=n, candidates=candidates)
    tilted = target if tilt is None else tilt.target(target)
    pool, _ = weighted_walk(tilted, n * candidates, seed, Masked(), _NAME)
    samples = [_chosen(pool.samples[row * candidates : (row + 1) * candidates], random.Random(f"{seed}/choice/{row}")) for row in range(n)]
    logs = [s.log_weight for s in samples]
    error = pool.log_z_error if n == 1 else relative_error(logs)
    return Samples(
        samples=samples,
        log_z=log_mean(logs),
        log_z_error=error,
        ess=pool.ess,
        forwards=pool.forwards,
        kl=None if math.isnan(error) else error**2 / 2,
        method=_NAME,
        details={
            "kl_unweighted": pool.log_z_error**2 * n / 2,
            "dead": sum(not s.finished for s in samples),
            "calls": pool.details["calls"],
        },
    )


def _chosen(candidates: list[Sample], source: random.Random) -> Sample:
    logs = np.array([s.log_weight for s in candidates])
    mean = log_mean(logs.tolist())
    if mean == -math.inf:
        return candidates[0]
    picked = candidates[pick(np.exp(logs - logs.max()).cumsum(), source)]
    return Sample(picked.tokens, mean, picked.log_prob, True)
