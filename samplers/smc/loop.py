"""Sequential Monte Carlo over texts: particles that grow, are weighed, and are resampled when few of them carry the weight."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..registry import method
from ..target import Meter, Sample, Samples, Target, effective_size, log_mean, require_positive, streams
from .boundaries import Block, boundary
from .lookahead import Rollouts
from .particles import Particle, Walker
from .potentials import Potential, Product, Reward, Twisted, evaluate
from .proposals import Masked, Proposal
from .rejuvenation import rejuvenate
from .resampling import SCHEMES, Scheme, resample

if TYPE_CHECKING:
    from grammars.vocabulary import Vocabulary

__all__ = ["log_z_variance", "smc"]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the loop runs, checked."""

    threshold: float
    scheme: Scheme
    moves: int
    depth: int

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"ess_threshold is a share of the particles, from 0 to 1, not {self.threshold}")
        if self.scheme not in SCHEMES:
            raise ValueError(f"resampling must be one of {', '.join(SCHEMES)}, not {self.scheme!r}")
        if self.moves < 0 or self.depth < 1:
            raise ValueError(f"moves must be at least 0 and move_depth at least 1, not {self.moves} and {self.depth}")


def log_z_variance(stages: Sequence[Sequence[float]], first: Sequence[int]) -> float:
    """Relative variance of an SMC estimate of ``Z``, from one run.

    The estimator of Lee and Whiteley 2018 (arXiv:1509.00394), which looks at which particles share an ancestor at the start: unbiased
    (times ``Z^2``) for multinomial resampling, on the safe side for schemes that vary less. It is noisy, so it is never taken to be
    less than the sum of what each stage alone contributes (as if stages did not depend on each other). Without resampling both are the
    usual estimate of importance sampling. When all particles descend from one it is 1: nothing can be told but that the estimate is
    poor; run more particles, or resample less often.

    Args:
        stages: log-weights of the particles before each resampling, and at the end.
        first: for each particle at the end, its ancestor among the particles of the start.

    Returns:
        the relative variance; ``nan`` for one particle, or where no particle has a weight.
    """
    n = len(first)
    if n < 2 or max(stages[-1]) == -math.inf:
        return math.nan
    shares: dict[int, float] = {}
    for ancestor, weight in zip(first, torch.tensor(stages[-1], dtype=torch.float64).softmax(0).tolist()):
        shares[ancestor] = shares.get(ancestor, 0.0) + weight
    apart = 1 - math.fsum(share * share for share in shares.values())
    alone = math.fsum((n / effective_size(weights) - 1) / (n - 1) for weights in stages)
    return max(alone, 1 - (n / (n - 1)) ** len(stages) * apart)


class _Run:
    """One run of the loop."""

    def __init__(self, n: int, walker: Walker, potential: Potential, plan: _Plan, seed: int) -> None:
        self.walker, self.potential, self.plan = walker, potential, plan
        self.sources = streams(seed, n)
        self.generator = torch.Generator().manual_seed(random.Random(f"{seed}/resampling").getrandbits(63))
        root = walker.root()
        self.particles = [Particle(root, 0.0, 0.0, i) for i in range(n)]
        self.ess: list[float] = []
        self.stages: list[list[float]] = []
        self.tried = self.accepted = 0

    @property
    def log_weights(self) -> list[float]:
        return [p.log_weight for p in self.particles]

    def go(self) -> None:
        """Until every particle is finished or has lost its weight."""
        blocks = 0
        while any(p.grows for p in self.particles):
            blocks += 1
            self.extend(blocks)
            self.ess.append(effective_size(self.log_weights))
            few = self.ess[-1] < self.plan.threshold * len(self.particles) * (1 - 1e-9)  # equal weights, up to rounding, are not few
            if few and any(p.grows for p in self.particles):
                self.resample()
                for _ in range(self.plan.moves):
                    tried, accepted = rejuvenate(self.particles, self.walker, self.potential, blocks, self.plan.depth, self.sources)
                    self.tried, self.accepted = self.tried + tried, self.accepted + accepted

    def extend(self, blocks: int) -> None:
        """One block more for every particle that grows, and its new weight."""
        rows = [i for i, p in enumerate(self.particles) if p.grows]
        ends = self.walker.run([self.particles[i].node for i in rows], blocks, [self.sources[i] for i in rows])
        alive = [end for end in ends if end.alive]
        values = iter(evaluate(self.potential, [end.prefix for end in alive]))
        for i, end in zip(rows, ends):
            particle = self.particles[i]
            value = next(values) if end.alive else -math.inf
            particle.log_weight += end.log_ratio - particle.node.log_ratio + value - particle.log_potential
            particle.node, particle.log_potential = end, value

    def resample(self) -> None:
        """Particles by weight; all weigh the mean of the old ones afterwards."""
        weights = self.log_weights
        self.stages.append(weights)
        logs = torch.tensor(weights, dtype=torch.float64)
        ancestors = resample(logs, len(weights), self.plan.scheme, self.generator).tolist()
        mean = log_mean(weights)
        chosen = [self.particles[a] for a in ancestors]
        self.particles = [Particle(p.node, mean, p.log_potential, p.first) for p in chosen]

    def samples(self, name: str) -> Samples:
        weights = self.log_weights
        variance = log_z_variance([*self.stages, weights], [p.first for p in self.particles])
        details = {"resampled": float(len(self.stages)), "calls": float(self.walker.meter.calls), **self.walker.proposal.details}
        if self.tried:
            details |= {"moves": float(self.tried), "moves_accepted": float(self.accepted)}
        return Samples(
            [Sample(p.node.tokens, p.log_weight, p.node.log_prob, p.node.finished) for p in self.particles],
            log_mean(weights),
            math.sqrt(variance),
            self.ess,
            self.walker.meter.forwards,
            None if math.isnan(variance) else variance / 2,
            name,
            details,
        )


_STEERING, _REWARDED, _MOVED, _AWRS = "SMC steering", "Reward-guided SMC", "resample-move SMC", "AWRS-SMC"
_LAW = "the model in the language, times the potentials, as particles grow; the estimate of Z is unbiased for any number of them"


@method(
    _STEERING,
    law="exact in the limit",
    target=_LAW,
    cost="one forward for each particle and token; common prefixes are computed once; finished particles cost nothing",
    paper="Lew et al. 2023, arXiv:2306.03081; Loula et al. 2025, arXiv:2504.13139",
    use='guided.sample(..., method="smc"), samplers.smc.smc(target, n, seed=...)',
)
@method(
    _REWARDED,
    law="exact in the limit",
    target=_LAW + "; intermediate targets are weighted prefixes, or with lookahead the estimated marginals of the final one",
    cost="as SMC steering, and the reward once a block and particle; lookahead=K writes K texts to the end for every prefix",
    paper="Markovic-Voronov et al. 2026, arXiv:2604.16453",
    use='guided.sample(..., method="smc", reward=..., block=..., lookahead=K), samplers.smc.smc(target, n, potential=..., seed=...)',
)
@method(
    _AWRS,
    law="exact in the limit",
    target=_LAW + "; weights are unbiased estimates of the mass that may follow",
    cost="as SMC steering, without masks: two checks of single tokens a step where model and constraint agree, more where they do not",
    paper="Lipkin et al. 2025, arXiv:2504.05410",
    use='guided.sample(..., method="awrs-smc"), samplers.smc.smc(target, n, proposal="awrs", seed=...)',
)
@method(
    _MOVED,
    law="exact in the limit",
    target=_LAW,
    cost="as SMC steering; after each resampling every move writes a suffix of up to move_depth tokens anew for every particle",
    paper="Gilks, Berzuini 2001; Markovic-Voronov et al. 2026, arXiv:2604.16453",
    use='guided.sample(..., method="smc", moves=M), samplers.smc.smc(target, n, moves=M, seed=...)',
)
def smc(
    target: Target,
    n: int,
    *,
    seed: int,
    proposal: str | Proposal = "masked",
    potential: Potential | None = None,
    twist: Potential | None = None,
    lookahead: int = 0,
    resampling: Scheme = "systematic",
    ess_threshold: float = 0.5,
    block: Block = "token",
    moves: int = 0,
    move_depth: int = 16,
    vocabulary: Vocabulary | None = None,
) -> Samples:
    """Weighted texts of ``target`` by sequential Monte Carlo.

    Every particle writes a block of tokens by the proposal; its weight is multiplied by the proposal's weight and by the ratio of the
    potential now to that before. When the effective sample size falls below ``ess_threshold * n`` particles are resampled, and moved
    ``moves`` times. The mean weight at the end is an unbiased estimate of ``Z``.

    Args:
        target: what to sample; its reward is a potential.
        n: particles.
        seed: same seed, same samples.
        proposal: ``"masked"`` (the mask of every step in full), ``"awrs"`` (adaptive weighted rejection, which asks about few tokens), or
            an object of your own.
        potential: multiplied to the target's reward. The target is then ``p(x) exp(reward(x)) Phi(x)`` over the language.
        twist: what intermediate targets are weighted by, instead of the potential's values on prefixes; does not change the target.
        lookahead: rollouts for each prefix that estimate the best twist; 0 does without.
        resampling: see :mod:`samplers.smc.resampling`.
        ess_threshold: 0 never resamples (importance sampling), 1 does so whenever weights differ.
        block: where particles are weighed, see :func:`samplers.smc.boundaries.boundary`.
        moves: Metropolis-Hastings moves of every particle after each resampling.
        move_depth: longest suffix, in tokens, that a move writes anew.
        vocabulary: what tokens mean, for blocks that are words, lines or steps; the automaton's where there is one.

    Returns:
        Samples with absolute weights: their mean is the estimate of ``Z``. ``log_z_error`` is by :func:`log_z_variance`.

    Raises:
        ValueError: an argument out of range, or a potential that is not a number.
        ConstraintError: ``block`` needs a vocabulary and there is none.
    """
    require_positive(n=n)
    if lookahead < 0 or (lookahead and twist is not None):
        raise ValueError("lookahead must be at least 0, and excludes a twist: it is one")
    plan = _Plan(ess_threshold, resampling, moves, move_depth)
    known = vocabulary if vocabulary is not None or target.automaton is None else target.automaton.vocabulary
    walker = Walker(target, Meter(target), _proposal(proposal), boundary(block, known))
    final: Potential = Reward(target) if potential is None else Product(Reward(target), potential)
    if lookahead:
        twist = Rollouts(walker, final, lookahead, seed)
    run = _Run(n, walker, final if twist is None else Twisted(final, twist), plan, seed)
    run.go()
    steered = target.reward is not None or potential is not None or twist is not None
    return run.samples(_AWRS if walker.proposal.name == "awrs" else _MOVED if moves else _REWARDED if steered else _STEERING)


def _proposal(proposal: str | Proposal) -> Proposal:
    if not isinstance(proposal, str):
        return proposal
    if proposal == "masked":
        return Masked()
    if proposal == "awrs":
        from ..awrs import AdaptiveRejection  # it builds on this package

        return AdaptiveRejection()
    raise ValueError(f"a proposal is 'masked', 'awrs' or an object with a method propose, not {proposal!r}")
