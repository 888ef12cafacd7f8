"""The law of a step: a model's scores, warped and masked by the states of the places. One function for target and drafts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from grammars.errors import ModelError
from samplers.masks import MaskTable, Selection
from samplers.sampling import Settings, draw, shape

from .rules import Place, Rules

if TYPE_CHECKING:
    from samplers.warpers.pipeline import Pipeline

    from .tree import DraftTree

__all__ = ["Shaper", "TargetRows", "fit"]

_IMPOSSIBLE = float("-inf")


class Shaper:
    """Scores in, laws out.

    Args:
        width: number of the target model's logits.
        settings: temperature, top-k, top-p.
        device: where scores live.
        warpers: a pipeline, or its parts; they act before ``settings``. Their rows must depend on the text alone.
        words: length of a packed mask, where it is more than ``width`` asks for.
        table: masks of earlier calls on the same device, to be used again.

    Raises:
        ValueError: a warper remembers its last step, so that it cannot judge several places of a text at once.
        ModelError: the table is for another number of logits.
    """

    def __init__(
        self,
        width: int,
        settings: Settings,
        *,
        device: torch.device | str = "cpu",
        warpers: Pipeline | Iterable[Any] | None = None,
        words: int = 0,
        table: MaskTable | None = None,
    ) -> None:
        if table is not None and table.width != width:
            raise ModelError(f"the mask table is for {table.width} logits, the model has {width}")
        self.width, self.settings, self.device = width, settings, torch.device(device)
        self.table = MaskTable(width, device, words) if table is None else table
        self.pipeline = None if warpers is None else _pipeline(warpers)

    # ------------------------------------------------------------ masks
    def select(self, places: Sequence[Place], rules: Sequence[Rules]) -> Selection | None:
        """The masks of places that have not ended; ``None`` where all are free."""
        keys = [rule.key(place) for rule, place in zip(rules, places)]
        if all(key is None for key in keys):
            return None
        return self.table.select(keys, lambda i, row: rules[i].fill(places[i], row))

    # ------------------------------------------------------------ laws
    def target(self, scores: torch.Tensor, places: Sequence[Place], rules: Sequence[Rules]) -> tuple[torch.Tensor, torch.Tensor]:
        """The target's law at places that have not ended.

        Args:
            scores: ``float[len(places), width]``, logits or log-probabilities.

        Returns:
            ``float64[len(places), width]``, whose softmax is the law (at temperature 0 its greatest entry is the token), and
            ``float64[len(places)]``, the logarithm of the mass that the mask left, as in :class:`samplers.sampling.Drawn`.
        """
        selection = self.select(places, rules)
        allowed = None if selection is None else selection.allowed()
        return shape(scores.double(), allowed, self.settings, None if self.pipeline is None else self._warp(places))

    def _warp(self, places: Sequence[Place]) -> Any:
        from samplers.warpers.base import Row

        pipeline = self.pipeline
        assert pipeline is not None
        rows = [Row(place.context.tokens, place.start) for place in places] if pipeline.reads_text else []
        return lambda scores, allowed: pipeline.apply(rows, scores, allowed)

    def draft(self, scores: torch.Tensor, places: Sequence[Place], rules: Sequence[Rules]) -> torch.Tensor:
        """See :meth:`speculative.protocol.StepInfo.law`; where a draft model gives no mass to what is allowed, that is all equally likely;
        where nothing is allowed (a dead end), all is ``-inf``.

        Scores of another width are cut, or filled up with what cannot come.
        """
        scores = fit(scores.to(self.device, torch.float64), self.width)
        settings = self.settings if self.settings.temperature else Settings(1.0)
        selection = self.select(places, rules)
        allowed = None if selection is None else selection.allowed()
        if allowed is not None:
            nothing = scores.masked_fill(~allowed, _IMPOSSIBLE).amax(-1, keepdim=True) == _IMPOSSIBLE
            scores = torch.where(nothing, torch.zeros_like(scores), scores)
        return shape(scores, allowed, settings)[0].log_softmax(-1).nan_to_num(nan=_IMPOSSIBLE, neginf=_IMPOSSIBLE)

    def facts(self, scores: torch.Tensor, picks: Sequence[tuple[int, Place, Rules, int]]) -> list[tuple[int, float, float]]:
        """Tokens with what is told of them: log-probability under the model, and the logarithm of the mass that the mask left.

        Args:
            scores: ``float[n, width]``.
            picks: row of the scores, place, rules and token.
        """
        if not picks:
            return []
        rows, places, rules, tokens = zip(*picks)
        some = scores[list(rows)].double()
        total = some.logsumexp(-1)
        logprobs = some.gather(-1, torch.tensor(tokens, device=some.device)[:, None])[:, 0] - total
        selection = self.select(places, rules)
        if selection is None:
            kept = torch.zeros_like(total)
        elif self.pipeline is not None:
            kept = self.target(some, places, rules)[1]
        else:
            warped = some / self.settings.temperature if self.settings.temperature not in (0, 1) else some
            whole = total if warped is some else warped.logsumexp(-1)
            kept = (warped.masked_fill(~selection.allowed(), _IMPOSSIBLE).logsumexp(-1) - whole).clamp(max=0)
        return list(zip(tokens, logprobs.tolist(), kept.tolist()))

    def best(self, scores: torch.Tensor, places: Sequence[Place], rules: Sequence[Rules]) -> torch.Tensor:
        """The most probable allowed token of each place under the target: ``int64[len(places)]``, without float64 where that can be."""
        if self.pipeline is not None:
            return self.target(scores, places, rules)[0].argmax(-1)
        selection = self.select(places, rules)
        return (scores if selection is None else selection.apply(scores)).argmax(-1)


def _pipeline(warpers: Pipeline | Iterable[Any]) -> Pipeline:
    from samplers.warpers.memory import RowMemory
    from samplers.warpers.pipeline import as_pipeline

    pipeline = as_pipeline(warpers)
    for part in pipeline.before + pipeline.after:
        if any(isinstance(value, RowMemory) for value in vars(part).values()):
            raise ValueError(
                f"{type(part).__name__} goes on from its last step, and speculation judges several places of a text at once: "
                "use it without a drafter"
            )
    pipeline.reset()
    return pipeline


def fit(scores: torch.Tensor, width: int) -> torch.Tensor:
    """Scores of ``width`` tokens: what is beyond is cut, what is missing cannot come."""
    if scores.shape[-1] >= width:
        return scores[..., :width]
    return torch.nn.functional.pad(scores, (0, width - scores.shape[-1]), value=_IMPOSSIBLE)


class TargetRows:
    """The target's law at the nodes of one tree, computed where a verifier asks for it.

    Args:
        shaper: the law.
        tree: the tree.
        nodes: its nodes that something can follow.
        scores: ``float[len(nodes), width]``, the model's.
    """

    def __init__(self, shaper: Shaper, tree: DraftTree, nodes: Sequence[int], scores: torch.Tensor) -> None:
        self.shaper, self.tree, self.scores = shaper, tree, scores
        self._place = {node: i for i, node in enumerate(nodes)}
        self._laws: dict[int, torch.Tensor] = {}
        self._kept: dict[int, float] = {}
        self._best: torch.Tensor | None = None

    @property
    def greedy(self) -> bool:
        """Whether the law is that of the most probable token."""
        return self.shaper.settings.temperature == 0

    def raw(self, node: int) -> torch.Tensor:
        """``float[width]``: the model's own scores."""
        return self.scores[self._place[node]]

    def shaped(self, node: int) -> torch.Tensor:
        """``float64[width]``: scores whose softmax is the target's law."""
        found = self._laws.get(node)
        if found is None:
            scores, kept = self.shaper.target(self.raw(node)[None], [self.tree.places[node]], [self.tree.rules])
            found = self._laws[node] = scores[0]
            self._kept[node] = float(kept[0])
        return found

    def probabilities(self, node: int) -> torch.Tensor:
        """``float64[width]``: the target's law; the caller's to change. At temperature 0 all of it is on one token."""
        scores = self.shaped(node)
        if self.greedy:
            law = torch.zeros_like(scores)
            law[scores.argmax()] = 1.0
            return law
        return scores.softmax(-1)

    def kept(self, node: int) -> float:
        """Logarithm of the mass that the mask left; ``-inf``: the model gives nothing to what is allowed."""
        self.shaped(node)
        return self._kept[node]

    def best(self, node: int) -> int:
        """The most probable allowed token."""
        if self._best is None:
            nodes = list(self._place)
            places = [self.tree.places[n] for n in nodes]
            self._best = self.shaper.best(self.scores, places, [self.tree.rules] * len(nodes)).cpu()
        return int(self._best[self._place[node]])

    def sample(self, node: int, uniform: float) -> int:
        """The token that plain decoding takes here when this is its uniform random number in [0, 1)."""
        if self.greedy:
            return self.best(node)
        scores = self.shaped(node)[None]
        return int(draw(scores, torch.tensor([uniform], dtype=torch.float64, device=scores.device))[0])
