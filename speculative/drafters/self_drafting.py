"""The target drafts for itself, with some of its layers: LayerSkip and SWIFT."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from samplers.registry import method

from .layers import decoder_layers, first_layers, without
from .model import ModelDrafter
from .skips import SkipSearch

if TYPE_CHECKING:
    from samplers.models.hf import HFModel

    from ..protocol import Outcome
    from ..rules import Place, Rules

__all__ = ["LayerSkipDrafter", "SwiftDrafter"]

_LAW = "a drafter that draws from its own law: the law of the text is the verifier's"


def _wrapped(model: Any, part: Any) -> HFModel:
    """``part``, a model of some of the layers of ``model``, as a language model."""
    from samplers.models.hf import HFModel

    return HFModel(part, eos_token_ids=model.eos_token_ids)


@method(
    "LayerSkip",
    law="exact",
    target=_LAW,
    cost="drafts cost exit_layer / layers of a forward; no weights are added",
    paper="Elhoushi et al. 2024, arXiv:2404.16710",
    use="speculative.decode(..., drafter=LayerSkipDrafter(model, exit_layer))",
)
class LayerSkipDrafter(ModelDrafter):
    """Drafts with the first layers and the output layer, early exit. It is good with checkpoints that were trained for it.

    The paper verifies with the remaining layers only, going on from what the first ones computed; here verification runs all layers,
    and the first ones keep a cache of their own.

    Args:
        model: an :class:`~samplers.models.hf.HFModel` over a network that is built like Llama.
        exit_layer: how many layers draft.

    Raises:
        ModelError: the network is built otherwise.
        ValueError: no such number of layers.
    """

    name = "early exit"

    def __init__(self, model: HFModel, exit_layer: int, *, temperature: float = 1.0) -> None:
        super().__init__(_wrapped(model, first_layers(model.model, exit_layer)), temperature=temperature)
        self.exit_layer = exit_layer


@method(
    "SWIFT",
    law="exact",
    target=_LAW,
    cost="while skips are searched for, a forward of some of the layers over the text's end each step; no weights are added",
    paper="Xia et al. 2024, arXiv:2410.06916",
    use="speculative.decode(..., drafter=SwiftDrafter(model))",
)
class SwiftDrafter(ModelDrafter):
    """Drafts with the model less some attention and feed-forward sublayers, which are chosen while it writes.

    The choice is scored by how many tokens of the text's end the skipping model would have written (its most probable token, given the
    text). Random choices are tried, every ``bayes`` trials one that Bayesian optimisation proposes (:mod:`.skips`), until ``trials`` are
    made or a score of ``good`` is reached; the best one drafts. The first and the last layer are always kept.

    The paper drafts upon the target's own cache and scores by it; here the skipping model has a cache of its own, which begins anew where
    a better choice is found, and scores on the last ``context`` tokens alone.

    Args:
        model: an :class:`~samplers.models.hf.HFModel` over a network that is built like Llama, of three layers at least.
        ratio: share of the sublayers (without those of the first and last layer) that is skipped.
        window: tokens that choices are scored on, the last that the target wrote; nothing is tried before there are so many.
        context: tokens that the model is given for that, the scored ones included.
        trials, bayes, good: see above.
        seed: of the search.

    Raises:
        ModelError: the network is built otherwise.
        ValueError: too few layers, or a number out of range.
    """

    name = "swift"

    def __init__(
        self,
        model: HFModel,
        *,
        ratio: float = 0.45,
        window: int = 32,
        context: int = 96,
        trials: int = 64,
        bayes: int = 8,
        good: float = 0.95,
        seed: int = 0,
        temperature: float = 1.0,
    ) -> None:
        self._layers = len(decoder_layers(model.model))
        if self._layers < 3 or not 0 < ratio < 1 or not 1 <= window < context or trials < 0 or bayes < 1:
            raise ValueError("SWIFT wants three layers, 0 < ratio < 1, 1 <= window < context, and no number of trials below 0")
        size = 2 * (self._layers - 2)
        self.search = SkipSearch(size, min(size - 1, max(1, round(ratio * size))), bayes, random.Random(f"{seed}/swift"))
        self.target, self.window, self.context = model, window, context
        self._trials, self._good = trials, good
        self.skipped = self.search.spread()
        super().__init__(_wrapped(model, self._network(self.skipped)), temperature=temperature)

    def _network(self, skipped: Sequence[bool]) -> Any:
        inner = self._layers - 2
        attention = {1 + i for i in range(inner) if skipped[i]}
        mlp = {1 + i for i in range(inner) if skipped[inner + i]}
        return without(self.target.model, attention, mlp)

    @property
    def searching(self) -> bool:
        """Whether better skips are still looked for."""
        return len(self.search.tried) < self._trials and self.search.best_score < self._good

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        """The search goes on from text to text."""

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Makes a trial, on the longest text that is long enough."""
        if not outcomes or not self.searching:
            return
        place = max((outcome.place for outcome in outcomes), key=lambda p: p.context.length - p.start)
        if place.context.length - place.start < self.window or place.context.length <= self.window:
            return
        tokens = place.context.tokens_from(place.context.length - self.context)
        choice = self.skipped if not self.search.tried else self.search.propose()
        network = self._network(choice)
        if self.search.note(choice, self._score(network, tokens)) and choice != self.skipped:
            self.skipped = choice
            self.model = _wrapped(self.target, network)
            self._scores = self.model.next_logits

    @torch.inference_mode()
    def _score(self, network: Any, tokens: Sequence[int]) -> float:
        """Share of the last ``window`` tokens that the network finds most probable, each after those before it."""
        ids = torch.tensor([tokens], device=self.target.model.device)
        best = network(input_ids=ids[:, :-1], use_cache=False).logits[0, -self.window :].argmax(-1)
        return float((best == ids[0, -self.window :]).double().mean())
