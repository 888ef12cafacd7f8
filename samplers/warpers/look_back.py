"""Look-back decoding: greedy, until the next distribution looks like one that the text has had already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..models import Context
from ..registry import Law, method
from .base import FORBIDDEN, Row, Warper, only_best, top
from .memory import RowMemory
from .second import FLOOR, language_model

__all__ = ["LookBack", "nearest"]


def nearest(logprobs: torch.Tensor, past: Sequence[torch.Tensor]) -> float:
    """``min over j of KL(p || p_j)`` in nats; log-probabilities ``float[width]``, those of the past at least :data:`~.second.FLOOR`."""
    p = logprobs.exp()
    negative_entropy = float(torch.special.xlogy(p, p).sum())
    return min((negative_entropy - float(p @ one) for one in past), default=float("inf"))


@method(
    "Look-back decoding",
    law="exact",
    target=(
        "the most probable token, unless the step's distribution is within alpha (Kullback-Leibler) of an earlier one: then one of the k "
        "most probable, with probability proportional to exp(-KL of the distribution after it to the nearest one of the prompt)"
    ),
    cost="a comparison with every earlier distribution a step, all of which are kept; k rows through the model where repetition looms",
    paper="Xu et al. 2023, arXiv:2305.13477",
    use="guided.generate(..., warpers=[LookBack(model)])",
)
class LookBack(Warper):
    """A loop announces itself by a distribution that has been there before, drift by distributions far from the prompt's. With ``p_t`` the
    model's distribution of token ``t`` and ``m`` tokens of prompt (Xu et al. 2023, arXiv:2305.13477)::

        KL_t = min over j < t of KL(p_t || p_j)
        KL_t > alpha:   the most probable token
        otherwise:      v of the k most probable, with probability proportional to exp(-min over j <= m of KL(p_(t+1) after v || p_j))

    Distributions are the model's own; candidates and the most probable token are those of the scores that come in (after a mask, the
    allowed ones). ``p_1``, before any token, takes no part: most models have none.

    Args:
        model: the model, as a :class:`~samplers.models.LanguageModel` or a Hugging Face model.
        alpha: nats, at least 0.
        k: number of candidates, at least 1.

    Raises:
        ValueError: an argument out of range.
        ModelError: ``model`` is no language model.
    """

    law: Law = "exact"
    reads_text = True

    def __init__(self, model: Any, alpha: float = 0.9, k: int = 8) -> None:
        if k < 1 or not alpha >= 0:
            raise ValueError(f"k must be at least 1 and alpha at least 0, not {k} and {alpha}")
        self.alpha, self.k, self.model = alpha, k, language_model(model)
        self._memory: RowMemory[tuple[Context, list[torch.Tensor]]] = RowMemory()

    def reset(self) -> None:
        super().reset()
        self._memory.clear()

    def _follow(self, rows: Sequence[Row]) -> list[tuple[Context, list[torch.Tensor]]]:
        """Each row's context, and the distributions after each of its tokens, the last one's included."""
        asked: list[Context] = []
        found: list[tuple[list[Context], list[torch.Tensor]]] = []
        for row in rows:
            before = self._memory.recall(row)
            if before is not None:
                found.append(([before[0].extend(int(row.tokens[-1]))], before[1]))
            else:
                new = [self.model.context([int(row.tokens[0])])]
                for token in row.tokens[1:]:
                    new.append(new[-1].extend(int(token)))
                found.append((new, []))
            asked += found[-1][0]
        table = iter(self.model.next_logprobs(asked).clamp(min=FLOOR).float())
        kept = [(new[-1], [*old, *(next(table) for _ in new)]) for new, old in found]
        self._memory.keep(rows, kept)
        return kept

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        best, tokens = top(scores, self.k)
        out = only_best(scores, tokens, best)
        for i, (row, (context, past)) in enumerate(zip(rows, self._follow(rows))):
            if nearest(past[-1], past[:-1]) > self.alpha:
                continue
            ids = [token for token, score in zip(tokens[i].tolist(), best[i].tolist()) if score != FORBIDDEN]
            after = self.model.next_logprobs([context.extend(token) for token in ids]).float()
            # the distributions after tokens 1 .. m - 1 of the prompt predict its tokens; that after token m predicts the first new one
            prompt = past[: max(1, row.prompt - 1)]
            out[i] = FORBIDDEN
            out[i, ids] = -out.new_tensor([nearest(one, prompt) for one in after])
        return out

    def describe(self) -> str:
        return f"the best token, or one of {self.k} by nearness to the prompt where the distribution repeats within {self.alpha:g} nats"
