"""A linear head on the model's own hidden states: a value that costs no further network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, get_args

import torch

from grammars.errors import ModelError

from ..models.context import Context
from ..models.protocol import LanguageModel
from .protocol import Candidate, ValueBase

__all__ = ["Head"]

Link = Literal["linear", "log_sigmoid"]
Kind = Literal["ridge", "logistic"]
_STEPS = 100  # of Newton's method; a dozen is usual
_CLOSE = 1e-9


class Head(ValueBase):
    """``link(weight . h + bias)`` with ``h`` the hidden state at a candidate's last token (:meth:`LanguageModel.hidden`).

    The token that ends a text is left out: models are not trained on what follows it.

    Args:
        model: the model whose hidden states are read; usually the one that generates, whose cache then holds all but the last token.
        weight: ``float[size]``.
        bias: a number.
        link: ``"linear"``, or ``"log_sigmoid"``: the logarithm of a probability, as class guidance wants it (FUDGE: Yang and Klein 2021,
            arXiv:2104.05218).

    Raises:
        ValueError: the weight is not a vector of finite numbers, or the link is unknown.
    """

    def __init__(self, model: LanguageModel, weight: torch.Tensor, bias: float = 0.0, link: Link = "linear") -> None:
        if link not in get_args(Link):
            raise ValueError(f"the link of a head is one of {get_args(Link)}, not {link!r}")
        self.weight = weight.detach().to("cpu", torch.float64)
        if self.weight.dim() != 1 or not bool(self.weight.isfinite().all()):
            raise ValueError(f"the weight of a head is a vector of finite numbers, not of shape {tuple(weight.shape)}")
        self.model, self.bias, self.link = model, float(bias), link

    @classmethod
    def fit(
        cls,
        model: LanguageModel,
        texts: Sequence[Candidate],
        labels: Sequence[float],
        *,
        kind: Kind = "ridge",
        prefixes: int | None = 0,
        penalty: float = 1.0,
    ) -> Self:
        """A head that predicts the labels of texts, and of their prefixes.

        Args:
            model: see the class.
            texts: labelled candidates.
            labels: a number each; 0 or 1 for ``"logistic"``.
            kind: ``"ridge"`` (least squares; the value is the expected label) or ``"logistic"`` (log-probability of label 1).
            prefixes: how many prefixes of each text, evenly spread, are examples with the text's label beside the text itself; ``None``:
                all of them (FUDGE's way: the value of a prefix is the expectation over what may come). Texts weigh the same, however
                many examples they give.
            penalty: of the squared norm of the weights, for standardised hidden states, in units of one text.

        Raises:
            ValueError: numbers of texts and labels differ, there are none, a label does not fit, or a bound is out of range.
            ModelError: the model has no hidden states.
        """
        if len(texts) != len(labels) or not texts:
            raise ValueError(f"a head is fitted to texts with a label each; there are {len(texts)} texts and {len(labels)} labels")
        if kind not in get_args(Kind):
            raise ValueError(f"a head is fitted by one of {get_args(Kind)}, not {kind!r}")
        if not penalty > 0 or (prefixes is not None and prefixes < 0):
            raise ValueError(f"the penalty must be above 0 and prefixes at least 0, not {penalty} and {prefixes}")
        if kind == "logistic" and not {float(label) for label in labels} <= {0.0, 1.0}:
            raise ValueError("logistic regression needs labels of 0 and 1")
        examples = [_prefixes(text, prefixes) for text in texts]
        states = torch.cat([_states(model, group) for group in examples])
        weights = torch.tensor([1 / len(group) for group in examples for _ in group], dtype=torch.float64)
        target = torch.tensor([float(label) for label, group in zip(labels, examples) for _ in group], dtype=torch.float64)
        total = weights.sum()
        mean = (weights[:, None] * states).sum(0) / total
        spread = ((weights[:, None] * (states - mean) ** 2).sum(0) / total).sqrt().clamp(min=1e-6)
        features = torch.cat([(states - mean) / spread, torch.ones(len(states), 1, dtype=torch.float64)], 1)
        solve = _ridge if kind == "ridge" else _logistic
        solution = solve(features, target, weights, penalty)
        weight = solution[:-1] / spread
        return cls(model, weight, float(solution[-1] - weight @ mean), "linear" if kind == "ridge" else "log_sigmoid")

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        """See :meth:`Value.values`; one batch of the model.

        Raises:
            ModelError: the model's hidden states are not of the weight's size, or it has none.
        """
        if not candidates:
            return []
        states = _states(self.model, [_context(candidate) for candidate in candidates])
        if states.shape[-1] != len(self.weight):
            raise ModelError(f"the head has {len(self.weight)} weights, and the model's hidden states {states.shape[-1]} numbers")
        found = states @ self.weight + self.bias
        return (found if self.link == "linear" else torch.nn.functional.logsigmoid(found)).tolist()


def _context(candidate: Candidate) -> Context:
    """The context of a candidate, without the token that ended it."""
    if not candidate.finished:
        return candidate.context
    above = candidate.context.parent
    if above is not None and above.length == candidate.context.length - 1:
        return above
    return Context(candidate.context.tokens[:-1])


def _prefixes(text: Candidate, count: int | None) -> list[Context]:
    """The contexts of a text and of its prefixes, the text's own last."""
    whole = _context(text)
    lengths = range(text.start + 1, whole.length)
    if count is not None:
        lengths = lengths[:: -(-len(lengths) // count)] if 0 < count < len(lengths) else lengths[: count and len(lengths)]
    tokens = whole.tokens
    chain, found = Context(tokens[: text.start]), []
    for length in lengths:
        chain = chain.extend(tokens[chain.length : length])
        found.append(chain)
    return [*found, whole]


def _states(model: LanguageModel, contexts: Sequence[Context]) -> torch.Tensor:
    return model.hidden(contexts).to("cpu", torch.float64)


def _ridge(features: torch.Tensor, target: torch.Tensor, weights: torch.Tensor, penalty: float) -> torch.Tensor:
    """Weighted least squares; the last feature, the intercept, is not penalised."""
    return torch.linalg.solve(features.T @ (weights[:, None] * features) + _shrink(features, penalty), features.T @ (weights * target))


def _logistic(features: torch.Tensor, target: torch.Tensor, weights: torch.Tensor, penalty: float) -> torch.Tensor:
    """Weighted logistic regression by Newton's method, halving steps that do not descend."""
    shrink = _shrink(features, penalty)

    def loss(w: torch.Tensor) -> torch.Tensor:
        scores = features @ w
        return (weights * (torch.nn.functional.softplus(scores) - target * scores)).sum() + w @ shrink @ w / 2

    found = torch.zeros(features.shape[1], dtype=torch.float64)
    for _ in range(_STEPS):
        chance = (features @ found).sigmoid()
        gradient = features.T @ (weights * (chance - target)) + shrink @ found
        curvature = features.T @ ((weights * chance * (1 - chance))[:, None] * features) + shrink
        # one class only: the intercept, which is not penalised, has no finite optimum; this keeps it finite
        curvature[-1, -1] += _CLOSE
        step = torch.linalg.solve(curvature, gradient)
        size, now = 1.0, loss(found)
        while size > _CLOSE and loss(found - size * step) > now:
            size /= 2
        found = found - size * step
        if float(step.abs().max()) * size < _CLOSE:
            break
    return found


def _shrink(features: torch.Tensor, penalty: float) -> torch.Tensor:
    diagonal = torch.full((features.shape[1],), penalty, dtype=torch.float64)
    diagonal[-1] = 0
    return torch.diag(diagonal)
