"""Samplers on the toy suite: how far what they return is from the target, against what they spent.

Every contender samples every case of :mod:`.toys` at several sizes, several times. Its weighted texts are compared with the
enumerated target by total variation, so the error is that of the law *and* of the finite sample: even independent draws from the
target have one, and that is the reference.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from grammars.errors import DeadEnd, GuidedError

from .toys import A, Case, Law, case, names, total_variation

if TYPE_CHECKING:
    from rich.console import Console

    from samplers.target import Samples, Target

__all__ = ["CONTENDERS", "Contender", "LawRecord", "available", "contenders", "measured", "run_laws"]

Sampler = Callable[..., Any]
REFERENCE = "draws from the target"
MASKING = "local masking"


@dataclass(frozen=True)
class Contender:
    """A sampler that takes part.

    Attributes:
        name: as in the table of methods; peers have names of their own.
        where: ``module:function``; the function is ``sampler(target, n, *, seed, ...) -> Samples``.
        options: arguments for it.
        bounded: it wants a ``reward_bound`` where there is a reward.
        peer: what must be installed for it.
    """

    name: str
    where: str
    options: Mapping[str, Any] = field(default_factory=dict)
    bounded: bool = False
    peer: str = ""

    def load(self) -> Sampler:
        """The function.

        Raises:
            GuidedError: what it needs is not installed.
        """
        module, _, name = self.where.partition(":")
        try:
            return getattr(import_module(module), name)
        except ImportError as error:
            raise GuidedError(f"{self.name} is not available: {error}") from error

    def draw(self, problem: Case, target: Target, n: int, seed: int) -> Samples:
        """Samples of one case."""
        options = dict(self.options)
        if self.bounded and problem.reward is not None:
            options["reward_bound"] = problem.reward_bound
        return self.load()(target, n, seed=seed, **options)


@dataclass(frozen=True)
class _Reference(Contender):
    """Independent draws from the enumerated target: what an exact sampler can do at best."""

    def draw(self, problem: Case, target: Target, n: int, seed: int) -> Samples:
        from samplers.target import Sample, Samples

        drawn = random.Random(seed).choices(list(problem.law), list(problem.law.values()), k=n)
        return Samples([Sample(s, 0.0, 0.0, True) for s in drawn], problem.log_z, 0.0, [], 0, 0.0, self.name)


@dataclass(frozen=True)
class _Unweighted(Contender):
    """Local masking as it is mostly used: its texts, all of one weight; those that ran into a dead end are thrown away."""

    def draw(self, problem: Case, target: Target, n: int, seed: int) -> Samples:
        from samplers.target import Sample

        found = super().draw(problem, target, n, seed)
        found.samples = [Sample(s.tokens, 0.0 if s.finished else -math.inf, s.log_prob, s.finished) for s in found.samples]
        return found


CONTENDERS: tuple[Contender, ...] = (
    _Reference(REFERENCE, ""),
    _Unweighted(MASKING, "samplers.importance:importance"),
    Contender("rejection sampling", "samplers.rejection:rejection", bounded=True),
    Contender("CARS constrained adaptive rejection sampling", "samplers.cars:cars", bounded=True),
    Contender("masked importance sampling", "samplers.importance:importance"),
    Contender("ASAp grammar-aligned decoding", "samplers.asap:asap", bounded=True),
    Contender("AWRS adaptive weighted rejection sampling", "samplers.awrs:awrs"),
    Contender("SMC steering", "samplers.smc:smc"),
    Contender("AWRS-SMC", "samplers.smc:smc", {"proposal": "awrs"}),
    Contender("resample-move SMC", "samplers.smc:smc", {"moves": 1}),
    Contender("MCMC constrained sampling", "samplers.mcmc:mcmc"),
    Contender("DAEMON", "samplers.daemon:daemon"),
    Contender("Arithmetic Sampling", "samplers.without_replacement:arithmetic_sampling"),
    Contender("stochastic beam search", "samplers.without_replacement:stochastic_beam_search"),
    Contender("CPSBS conditional-Poisson beams", "samplers.without_replacement:conditional_poisson_beams"),
    Contender("genlm-control AWRS", "guided.evaluation.genlm:awrs", peer="genlm-control"),
    Contender("genlm-control SMC", "guided.evaluation.genlm:smc", peer="genlm-control"),
    Contender("genlm-control AWRS-SMC", "guided.evaluation.genlm:awrs_smc", peer="genlm-control"),
)
"""Everything that can take part, the reference and plain masking first, peers last."""


def available(contender: Contender) -> bool:
    """Whether it can run here: peers take part where they are installed."""
    if not contender.where:
        return True
    try:
        contender.load()
    except GuidedError:
        return False
    return True


def contenders(wanted: Sequence[str] = (), peers: bool = True) -> list[Contender]:
    """Those whose name contains one of ``wanted`` (all without any), as far as they are available.

    Raises:
        GuidedError: nothing is called so, or what was asked for by name is not installed.
    """
    if not wanted:
        return [c for c in CONTENDERS if (peers or not c.peer) and available(c)]
    found = [c for c in CONTENDERS if any(word.lower() in c.name.lower() for word in wanted)]
    if not found:
        raise GuidedError(f"no method is called like {', '.join(wanted)}; there are: {', '.join(c.name for c in CONTENDERS)}")
    for contender in found:
        if contender.where:
            contender.load()
    return found


# ---------------------------------------------------------------- the run
@dataclass(frozen=True)
class LawRecord:
    """One contender on one case at one size.

    Attributes:
        method, case, n: which.
        status: ``"ok"``, or ``"refused"`` where the method does not take the case; ``reason`` says why.
        distance, distance_error: total variation to the target, mean over the runs and its standard error; 1 for a run without a text.
        log_z, log_z_error: root of the mean squared error of the estimate of log Z where it is finite, and the mean of the stated errors.
        begins_with_a: mean estimate of the probability that a text begins with ``a`` (the known distortion is about it).
        forwards: distinct contexts that the model was asked about, mean of a run.
        asked: contexts asked about, the same one each time; what a model without a cache would have to compute.
        batches: calls of the model.
        seconds: wall time of a run.
        empty: runs without a text.
    """

    method: str
    case: str
    n: int
    status: str = "ok"
    reason: str = ""
    distance: float = math.nan
    distance_error: float = math.nan
    log_z: float = math.nan
    log_z_error: float = math.nan
    begins_with_a: float = math.nan
    forwards: float = math.nan
    asked: float = math.nan
    batches: float = math.nan
    seconds: float = math.nan
    empty: int = 0

    def as_dict(self) -> dict[str, Any]:
        """As plain data; numbers that do not exist are ``None``."""
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()}


def measured(samples: Samples) -> Law:
    """The law that weighted samples stand for; empty where none has a weight."""
    found: Law = {}
    try:
        weights = samples.weights.tolist()
    except DeadEnd:
        return found
    for sample, weight in zip(samples.samples, weights):
        if weight:
            found[sample.tokens] = found.get(sample.tokens, 0.0) + weight
    return found


@dataclass
class _Run:
    """What one call gave."""

    law: Law
    log_z: float
    log_z_error: float
    forwards: int
    asked: int
    batches: int
    seconds: float


def _one(contender: Contender, problem: Case, n: int, seed: int) -> _Run:
    from samplers.models import Counting

    model = Counting(problem.model)
    target = problem.target(model=model)
    begun = time.perf_counter()
    samples = contender.draw(problem, target, n, seed)
    seconds = time.perf_counter() - begun
    law = measured(samples)
    return _Run(law, samples.log_z, samples.log_z_error, model.rows, model.rows + model.hits, model.forwards, seconds)


def _record(contender: Contender, problem: Case, n: int, runs: Sequence[_Run]) -> LawRecord:
    distances = [total_variation(run.law, problem.law) if run.law else 1.0 for run in runs]
    squares = [(run.log_z - problem.log_z) ** 2 for run in runs if math.isfinite(run.log_z)]
    stated = [run.log_z_error for run in runs if math.isfinite(run.log_z_error)]
    begins = [math.fsum(p for s, p in run.law.items() if s[0] == A) for run in runs if run.law]
    return LawRecord(
        contender.name,
        problem.name,
        n,
        distance=fmean(distances),
        distance_error=stdev(distances) / math.sqrt(len(distances)) if len(distances) > 1 else math.nan,
        log_z=math.sqrt(fmean(squares)) if squares else math.nan,
        log_z_error=fmean(stated) if stated else math.nan,
        begins_with_a=fmean(begins) if begins else math.nan,
        forwards=fmean(run.forwards for run in runs),
        asked=fmean(run.asked for run in runs),
        batches=fmean(run.batches for run in runs),
        seconds=fmean(run.seconds for run in runs),
        empty=sum(not run.law for run in runs),
    )


def run_laws(
    chosen: Sequence[Contender],
    *,
    case_names: Iterable[str] | None = None,
    sizes: Sequence[int] = (4, 16, 64, 256),
    runs: int = 8,
    seed: int = 7,
    console: Console | None = None,
) -> list[LawRecord]:
    """Samples every case with every contender.

    Args:
        chosen: see :func:`contenders`.
        case_names: of :mod:`.toys`; ``None``: all.
        sizes: numbers of texts (particles).
        runs: calls at each size.
        seed: of the first call; run ``i`` of every contender has the seed ``seed + i``.
        console: for a progress bar.

    Raises:
        ValueError: an unknown case, or no size or run.
    """
    from rich.progress import track

    if not sizes or min(sizes) < 1 or runs < 1:
        raise ValueError(f"sizes and runs must be at least 1, not {list(sizes)} and {runs}")
    problems = [case(name) for name in (names() if case_names is None else case_names)]
    todo = [(contender, problem) for contender in chosen for problem in problems]
    records: list[LawRecord] = []
    for contender, problem in track(todo, "laws", console=console, disable=console is None):
        try:
            _one(contender, problem, min(sizes), seed)  # compiles and fills caches, so that times are those of sampling
            for n in sizes:
                records.append(_record(contender, problem, n, [_one(contender, problem, n, seed + i) for i in range(runs)]))
        except (GuidedError, ValueError) as error:
            records.append(LawRecord(contender.name, problem.name, 0, "refused", str(error)))
    return records
