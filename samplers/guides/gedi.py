"""GeDi: class-conditional language models as a classifier of every next token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..registry import method
from ..warpers.base import FORBIDDEN, Row
from ..warpers.memory import RowMemory
from ..warpers.second import FLOOR, Companion
from .guide import Guide, as_logprobs, guided_scores

__all__ = ["GeDi"]

_Kept = tuple[float, torch.Tensor]
"""Of a text: its log-probability under a class's model, and the log-probabilities of the tokens after it."""


class _ClassModel:
    """``log p(text, v | class)`` for every next token ``v``; the text is what was generated."""

    def __init__(self, model: Any, code: Sequence[int]) -> None:
        self.reader = Companion(model, before=code)
        self._memory: RowMemory[_Kept] = RowMemory()

    def reset(self) -> None:
        self.reader.reset()
        self._memory.clear()

    def joint(self, rows: Sequence[Row], like: torch.Tensor) -> torch.Tensor:
        """``float64[rows, width]``."""
        before = [self._so_far(row) for row in rows]
        after = self.reader.logprobs(rows, like)
        self._memory.keep(rows, list(zip(before, after)))
        return after + torch.tensor(before, dtype=after.dtype, device=after.device)[:, None]

    def _so_far(self, row: Row) -> float:
        if not row.made:
            return 0.0
        known = self._memory.recall(row)
        if known is not None:
            return known[0] + float(known[1][int(row.tokens[-1])])
        (scores,) = self.reader.model.score(self.reader.texts.start(row), [[int(token) for token in row.made]])
        return float(scores.clamp(min=FLOOR).sum())


@method(
    "GeDi",
    law="exact",
    target=(
        "each token ~ p(v) P(class | text + v)^omega over the tokens that the filter leaves, P by Bayes' rule from two class-conditional "
        "models, their log-probabilities divided by the length of the text"
    ),
    cost="a step of each class-conditional model",
    paper="Krause et al. 2020, arXiv:2009.06367",
    use="guided.generate(..., guide=GeDi(model, model, desired_code=ids, undesired_code=ids))",
)
class GeDi(Guide):
    """``q(v) ~ p(v) P(c | text + v) ** omega`` (Krause et al. 2020, arXiv:2009.06367), by Bayes' rule over the desired class ``c`` and
    the undesired one, from language models conditioned on the class, so that one step of each classifies all next tokens::

        P(c | x_1..t) = softmax over the classes of  b_c + (alpha / t) sum_j log p(x_j | x_<j, c)

    The sum is over the generated tokens (the prompt is read, and not judged). The filter then drops the least desirable tokens (lowest
    ``P``) as long as together they hold less than ``drop`` of ``q``, but none with ``P`` of at least ``certain``.

    Args:
        desired, undesired: :class:`~samplers.models.LanguageModel` or Hugging Face models over the same vocabulary; one model with two
            codes is usual.
        omega: exponent of the class's probability, at least 0.
        desired_code, undesired_code: control codes, token ids that come before the row's own prompt.
        alpha: scale of the log-probabilities, above 0; GeDis learn it.
        bias: ``b_desired - b_undesired``, the log-odds of the classes' priors; GeDis learn it.
        drop: the paper's ``1 - rho``, in [0, 1); 0 switches the filter off.
        certain: the paper's ``tau``, in [0, 1].

    Raises:
        ValueError: an argument out of range.
        ModelError: one is no language model; when called, it has another number of logits.
    """

    def __init__(
        self,
        desired: Any,
        undesired: Any,
        omega: float = 30.0,
        *,
        desired_code: Sequence[int] = (),
        undesired_code: Sequence[int] = (),
        alpha: float = 1.0,
        bias: float = 0.0,
        drop: float = 0.8,
        certain: float = 0.8,
    ) -> None:
        if not 0 <= omega < math.inf or not 0 < alpha < math.inf or not math.isfinite(bias):
            raise ValueError(f"omega must be at least 0, alpha above 0 and bias finite, not {omega}, {alpha} and {bias}")
        if not 0 <= drop < 1 or not 0 <= certain <= 1:
            raise ValueError(f"drop must be in [0, 1) and certain in [0, 1], not {drop} and {certain}")
        self.omega, self.alpha, self.bias, self.drop, self.certain = omega, alpha, bias, drop, certain
        self.desired, self.undesired = _ClassModel(desired, desired_code), _ClassModel(undesired, undesired_code)

    def reset(self) -> None:
        super().reset()
        self.desired.reset()
        self.undesired.reset()

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        logprobs = as_logprobs(scores)
        lengths = torch.tensor([len(row.made) + 1 for row in rows], dtype=logprobs.dtype, device=logprobs.device)[:, None]
        difference = self.desired.joint(rows, logprobs) - self.undesired.joint(rows, logprobs)
        self.scored += 2 * len(rows)
        classes = torch.nn.functional.logsigmoid(self.bias + self.alpha * difference / lengths)
        return guided_scores(scores, logprobs, self.filtered(logprobs + self.omega * classes, classes))

    def filtered(self, guided: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """``guided`` (``float64[rows, width]``) without the least desirable tokens; ``classes``: their ``log P(c | .)``."""
        if self.drop == 0:
            return guided
        order = classes.argsort(dim=-1, stable=True)
        held = guided.softmax(-1).nan_to_num(nan=0.0).gather(-1, order).cumsum(-1)
        dropped = (held < self.drop) & (classes.gather(-1, order).exp() < self.certain)
        return guided.masked_fill(torch.zeros_like(dropped).scatter(-1, order, dropped), FORBIDDEN)

    def describe(self) -> str:
        less = f", less the least desirable {self.drop:g}" if self.drop else ""
        return f"times the probability of the class by two class-conditional models to the power of {self.omega:g}{less} (GeDi)"
