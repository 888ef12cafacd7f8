"""The loop of token guidance over a target: masks, then warpers and guides, then a draw; every token on record."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ..sampling import Settings, draw, shape
from ..search.frontier import Ending, Node, Progress, SearchBudget, Space
from ..target import Sample, Samples, Target, effective_size, log_mean, relative_error, require_positive, streams
from ..warpers.base import Row
from ..warpers.pipeline import Pipeline, as_pipeline
from .guide import choose_ends, guides_of

if TYPE_CHECKING:
    from ..search.trace import Trace
    from ..warpers.base import Warper

__all__ = ["Guided", "TokenRecord", "guided_decode"]


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """One token, and what the guide did to the step that drew it. All logarithms are natural.

    Attributes:
        token: its id.
        logprob: log-probability under the model at the target's temperature, nothing masked.
        log_kept: logarithm of the probability mass that the constraint left at this step.
        log_law: log-probability under the law that the token was drawn from; 0 at temperature 0.
        kl: Kullback-Leibler divergence in nats of that law from the model restricted to the allowed tokens.
    """

    token: int
    logprob: float
    log_kept: float
    log_law: float
    kl: float

    @property
    def gain(self) -> float:
        """How much more likely the guide made the token, in nats."""
        return self.log_law - (self.logprob - self.log_kept)


@dataclass
class Guided(Samples):
    """Guided texts, as :class:`~samplers.target.Samples`.

    The texts as they come (all counting the same) follow the guide's law of steps. Their weights relate them to the target:
    ``p(x) exp(reward(x))`` over the probability that the guided steps gave the text, so that the mean of ``exp(log_weight) f(tokens)``
    is an unbiased estimate of the sum of ``p(x) exp(reward(x)) f(x)`` over all texts that the guided steps can write (with a top-k,
    or at temperature 0, not the whole language).

    Attributes:
        records: for every sample one :class:`TokenRecord` a token.
    """

    records: list[list[TokenRecord]] = field(default_factory=list)


@dataclass(slots=True)
class _Text:
    node: Node
    source: random.Random
    seed: int
    records: list[TokenRecord] = field(default_factory=list)
    dead: bool = False


def guided_decode(
    target: Target,
    guide: Warper | Sequence[Any] | Pipeline,
    n: int = 1,
    *,
    seed: int = 0,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Guided:
    """Writes ``n`` texts of the target's language, each step shaped by a guide.

    Args:
        target: the model, prompt, constraint and number of tokens. Its temperature is that of the distribution which the guide reshapes;
            its reward has no part in the steps, only in the weights.
        guide: one of :mod:`samplers.guides`, or warpers and guides in order. They see the allowed tokens only.
        n: number of texts; all take part in one forward a step.
        seed: text ``i`` depends on ``seed`` and ``i`` only.
        temperature: acts on the guided scores; 0 takes the best token.
        top_k, top_p: act on the guided scores, after the temperature.
        ending: how texts end, see :mod:`samplers.search.frontier`: ``"budget"`` closes them in time.
        budget, trace, progress: see :class:`~samplers.search.frontier.Space`; when the budget is spent the texts stay unfinished.

    Returns:
        :class:`Guided`; ``details``: ``scored`` (see :class:`~samplers.guides.guide.Guide`), ``kl`` (mean over the texts of the sum of
        the steps' divergences), ``dead`` (texts that could not go on), ``calls`` of the model, ``complete`` (0 where the budget ended it).

    Raises:
        ValueError: an argument out of range, or a pipeline with a place for the mask (here it is always first).
        ConstraintError: with ``"budget"``, not even the shortest text fits into ``max_tokens``.
    """
    require_positive(n=n)
    settings = Settings(temperature, top_k, top_p)
    pipeline = as_pipeline(guide)
    if pipeline.before:
        raise ValueError("a guide sees allowed tokens only: the mask comes first here, so CONSTRAINT has no place among the warpers")
    choose_ends(pipeline, target.ends).reset()
    before = _scored(pipeline)
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    texts = [_Text(space.start(), source, seed + i) for i, source in enumerate(streams(seed, n))]
    while (live := [text for text in texts if not (text.dead or space.is_leaf(text.node))]) and not space.spent:
        _step(space, live, pipeline, settings)
    found = _result(space, texts, pipeline)
    found.details |= {"scored": _scored(pipeline) - before, "complete": float(not live)}
    return found


def _step(space: Space, live: Sequence[_Text], pipeline: Pipeline, settings: Settings) -> None:
    """One token for every text that goes on."""
    scores = space.rows([text.node for text in live])
    kept = scores.logsumexp(-1)
    places = [i for i, text in enumerate(live) if float(kept[i]) > -math.inf]
    for i, text in enumerate(live):
        text.dead = i not in places
    if not places:
        return
    going, scores, kept = [live[i] for i in places], scores[places], kept[places].clamp(max=0.0)
    prompt = space.target.prompt
    rows = [Row((*prompt, *text.node.tokens), len(prompt), text.seed) for text in going]
    law = shape(scores, None, settings, lambda given, _: (pipeline.warp(rows, given), kept))[0]
    uniforms = torch.tensor([text.source.random() for text in going], dtype=torch.float64)
    tokens = draw(law, uniforms) if settings.temperature else law.argmax(-1)
    logs = law.log_softmax(-1) if settings.temperature else torch.full_like(law, -math.inf).scatter(-1, tokens[:, None], 0.0)
    masked = scores - kept[:, None]
    kl = (logs.exp() * (logs - masked)).nan_to_num(nan=0.0).sum(-1).clamp(min=0.0)
    for i, (text, token) in enumerate(zip(going, tokens.tolist())):
        record = TokenRecord(token, float(scores[i, token]), float(kept[i]), float(logs[i, token]), float(kl[i]))
        text.records.append(record)
        text.node = space.child(text.node, token, record.logprob, 0.0)


def _scored(pipeline: Pipeline) -> int:
    return sum(guide.scored for guide in guides_of(pipeline))


def _result(space: Space, texts: Sequence[_Text], pipeline: Pipeline) -> Guided:
    samples = []
    for text in texts:
        node, weight = text.node, -math.inf
        if node.finished:
            weight = node.logprob + space.target.potential(node.tokens, True) - math.fsum(r.log_law for r in text.records)
        samples.append(Sample(node.tokens, weight, node.logprob, node.finished))
    logs = [sample.log_weight for sample in samples]
    error = relative_error(logs)
    return Guided(
        samples=samples,
        log_z=log_mean(logs),
        log_z_error=error,
        ess=[effective_size(logs)],
        forwards=space.forwards,
        kl=None,
        method=pipeline.describe(),
        details={
            "kl": math.fsum(record.kl for text in texts for record in text.records) / len(texts),
            "dead": sum(text.dead for text in texts),
            "calls": space.meter.calls,
        },
        records=[text.records for text in texts],
    )
