"""ARM: a reward model that scores all next tokens in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from grammars.errors import ModelError

from ..models.context import Context
from ..registry import method
from ..scores.protocol import Candidate, Value, ValueBase
from ..warpers.second import language_model
from .tilt import Tilt

__all__ = ["AutoregressiveReward", "NextTokenReward"]


class NextTokenReward(ValueBase):
    """A low-rank reward of every next token from one hidden state: ``r(v | text) = base . h + <down h, up[v]>``, where ``h`` is the model's
    hidden state at the last token of the text (Troshin, Niculae, Fokkens 2024, arXiv:2407.04615: a baseline that depends on the text
    only, and a difference that is bilinear in the state and the token).

    As a value of a text it is the reward of its last token. A text needs a token before that (a prompt).

    Args:
        model: a :class:`~samplers.models.LanguageModel` that has hidden states, or a Hugging Face model.
        down: ``float[rank, size]``.
        up: ``float[width, rank]``.
        base: ``float[size]``; ``None``: zero.

    Raises:
        ModelError: shapes that do not fit each other or the model's width.
    """

    def __init__(self, model: Any, down: torch.Tensor, up: torch.Tensor, base: torch.Tensor | None = None) -> None:
        self.model = language_model(model)
        shapes = f"down {tuple(down.shape)}, up {tuple(up.shape)}, base {None if base is None else tuple(base.shape)}"
        if down.ndim != 2 or up.ndim != 2 or down.shape[0] != up.shape[1] or (base is not None and base.shape != down.shape[1:]):
            raise ModelError(f"a reward of next tokens needs down [rank, size], up [width, rank] and base [size], not {shapes}")
        if up.shape[0] != self.model.width:
            raise ModelError(f"up has a row for each of {up.shape[0]} tokens, the model has {self.model.width}")
        self.down, self.up = down.double(), up.double()
        self.base = self.down.new_zeros(down.shape[1]) if base is None else base.double()

    def all_next(self, contexts: Sequence[Context]) -> torch.Tensor:
        """Rewards of every next token after each context: ``float64[len(contexts), width]``, one forward.

        Raises:
            ModelError: the model's hidden states have another size than ``down``.
        """
        states = self.model.hidden(contexts).to(self.down)
        if states.shape[-1] != self.down.shape[1]:
            raise ModelError(f"the hidden states have {states.shape[-1]} numbers, the reward was made for {self.down.shape[1]}")
        return states @ self.base[:, None] + (states @ self.down.T) @ self.up.T

    def many_next_values(self, candidates: Sequence[Candidate], tokens: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        rewards = self.all_next([candidate.context for candidate in candidates]).cpu()
        return [row[list(ids)] for row, ids in zip(rewards, tokens)]

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        texts = [candidate.context.tokens for candidate in candidates]
        if any(len(text) < 2 for text in texts):
            raise ModelError("a reward of next tokens is one of a token after a text: there is no text before the first token")
        rewards = self.all_next([Context(text[:-1]) for text in texts])
        return [float(row[text[-1]]) for row, text in zip(rewards, texts)]


@method(
    "ARM autoregressive reward model",
    law="exact",
    target="each token ~ softmax of z(v) + beta r(v | text) over the k most probable allowed tokens, r from one pass for all tokens",
    cost="one pass of the reward model a step",
    paper="Troshin, Niculae, Fokkens 2024, arXiv:2407.04615",
    use="guided.generate(..., guide=AutoregressiveReward(NextTokenReward(model, down, up), beta=10.0))",
)
class AutoregressiveReward(Tilt):
    """RAD's law with a reward model that gives the rewards of all next tokens in one pass, for example :class:`NextTokenReward`
    (Troshin, Niculae, Fokkens 2024, arXiv:2407.04615). So all allowed tokens may be reweighted (``top_k=None``).

    Args:
        value: a value whose ``next_values`` come from one pass (any other value works, and costs one evaluation a token).
        beta: steering amount; finite.
        top_k: at least 1; ``None``: all allowed tokens.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(self, value: Value, beta: float = 10.0, top_k: int | None = 20) -> None:
        super().__init__(value, beta, top_k)

    def describe(self) -> str:
        of = "" if self.top_k is None else f", of the {self.top_k} most probable"
        return f"plus {self.weight:g} times an autoregressive reward of the token{of} (ARM)"
