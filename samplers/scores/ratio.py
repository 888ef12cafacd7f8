"""The log-ratio of two language models: how much more one of them expects a text than the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..models.context import Context
from ..models.protocol import LanguageModel
from .memory import Memory
from .protocol import Candidate, ValueBase
from .texts import generated

__all__ = ["Ratio"]

_FLOOR = -100.0  # nats a token; the second model's probabilities count as at least exp of it, so that no ratio is infinite
_ROWS = 512  # next-token rows that are in memory at once
_SHORT = 8  # tokens: longer tails are scored as continuations, shorter ones by the rows of a batch


class Ratio(ValueBase):
    """``log p_a(text) - log p_b(text)`` of what was generated, in nats; additive over tokens, so all next tokens are scored at once.

    A tuned model over its base is an implicit reward (weak-to-strong search: Zhou et al. 2024, arXiv:2405.19262); one model under two
    prompts is a class-conditional score (GeDi: Krause et al. 2020, arXiv:2009.06367).

    Args:
        a, b: models over one vocabulary; may be the same one.
        prompt_a, prompt_b: token ids that stand for the candidate's prompt; ``None``: its own.
        scale: what the ratio is multiplied by.
        keep_end: whether the token that ends the text counts.
        size: how many candidates' sums are remembered.

    Probabilities of ``b`` below ``exp(-100)`` count as that; a token that ``a`` cannot write is worth ``-inf``.

    Raises:
        ValueError: the models' widths differ, or the scale is not a finite number above 0 (swap the models to turn the sign).
    """

    def __init__(
        self,
        a: LanguageModel,
        b: LanguageModel,
        *,
        prompt_a: Sequence[int] | None = None,
        prompt_b: Sequence[int] | None = None,
        scale: float = 1.0,
        keep_end: bool = True,
        size: int = 1 << 16,
    ) -> None:
        if a.width != b.width:
            raise ValueError(f"a ratio of two models needs one vocabulary; their logits are {a.width} and {b.width} wide")
        if not 0 < scale < math.inf:
            raise ValueError(f"the scale of a ratio must be a finite number above 0, not {scale}; swap the models to turn the sign")
        self.models, self.scale, self.keep_end = (a, b), scale, keep_end
        self._prompts = tuple(None if p is None else Context(p) for p in (prompt_a, prompt_b))
        self._sums: Memory[float] = Memory(size)
        self._contexts: tuple[Memory[Context], Memory[Context]] = (Memory(size), Memory(size))

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        """See :meth:`Value.values`."""
        found: dict[int, float] = {}
        short: list[tuple[int, Candidate, float, tuple[int, ...]]] = []
        for place, candidate in enumerate(candidates):
            known, total = self._known(candidate)
            tail = generated(candidate, self.keep_end)[known.length - candidate.start :]
            if not tail:
                found[place] = total
            elif len(tail) > _SHORT:
                found[place] = total + self._scored(candidate, known, tail)
            else:
                short.append((place, Candidate(known, candidate.start), total, tail))
        for begin in range(0, len(short), max(1, _ROWS // _SHORT)):
            part = short[begin : begin + max(1, _ROWS // _SHORT)]
            for (place, _, total, _), ratio in zip(part, self._by_rows([(c, tail) for _, c, _, tail in part])):
                found[place] = total + ratio
        numbers = [found[place] for place in range(len(candidates))]
        for candidate, number in zip(candidates, numbers):
            if self.keep_end or not candidate.finished:
                self._sums.put((candidate.context, candidate.start), number)
        return [self.scale * number for number in numbers]

    def many_next_values(self, candidates: Sequence[Candidate], tokens: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """See :meth:`ValueBase.many_next_values`: one row of each model a candidate, however many tokens."""
        found: list[torch.Tensor] = []
        for begin in range(0, len(candidates), _ROWS):
            part = candidates[begin : begin + _ROWS]
            rows = self._rows(part)
            for candidate, row, total, after in zip(part, rows, self.values(part), tokens[begin : begin + _ROWS]):
                chosen = row[torch.as_tensor(list(after), dtype=torch.int64)] * self.scale
                if not self.keep_end:
                    chosen[torch.tensor([token in candidate.ends for token in after], dtype=torch.bool)] = 0.0
                found.append(total + chosen)
        return found

    def _known(self, candidate: Candidate) -> tuple[Context, float]:
        """The longest prefix whose sum is remembered, the prompt's at the least."""
        context, total = self._sums.nearest(candidate)
        if context is None or total is None:
            root = Context(candidate.prompt)
            return root, self._sums.put((root, candidate.start), 0.0)
        return context, total

    def _rows(self, candidates: Sequence[Candidate]) -> torch.Tensor:
        """``log p_a - log p_b`` of every next token: ``float64[len(candidates), width]`` on the CPU."""
        a, b = (
            model.next_logprobs([self._context(which, c.context, c.start) for c in candidates]).to("cpu", torch.float64)
            for which, model in enumerate(self.models)
        )
        return a - b.clamp(min=_FLOOR)

    def _by_rows(self, parts: Sequence[tuple[Candidate, tuple[int, ...]]]) -> list[float]:
        """The ratio of each short tail, by next-token rows of all its prefixes."""
        prefixes = [Candidate(c.context.extend(tail[:k]), c.start) for c, tail in parts for k in range(len(tail))]
        tokens = torch.tensor([token for _, tail in parts for token in tail])
        picked = self._rows(prefixes).gather(-1, tokens[:, None])[:, 0]
        return [float(part.sum()) for part in picked.split([len(tail) for _, tail in parts])]

    def _scored(self, candidate: Candidate, known: Context, tail: tuple[int, ...]) -> float:
        a, b = (
            model.score(self._context(which, known, candidate.start), [tail])[0].to("cpu", torch.float64)
            for which, model in enumerate(self.models)
        )
        return float((a - b.clamp(min=_FLOOR)).sum())

    def _context(self, which: int, context: Context, start: int) -> Context:
        """The context as model ``which`` sees it: with its own prompt."""
        prompt = self._prompts[which]
        if prompt is None:
            return context
        found = self._contexts[which].get((context, start))
        if found is None:
            above = context.parent
            if above is not None and above.length >= start:
                found = self._context(which, above, start).extend(context.tail)
            else:
                found = prompt.extend(context.tokens_from(start))
            self._contexts[which].put((context, start), found)
        return found
