"""An exact toy: a model whose next-token distributions are a function of the prefix, and whose texts can all be enumerated.

Tests of laws run on it: what a sampler should follow is computed by summing over every text.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from grammars.errors import ModelError

from .context import Context
from .protocol import score_by_steps

__all__ = ["TabularModel"]

Row = Sequence[float] | np.ndarray | torch.Tensor


class TabularModel:
    """A language model given by its next-token probabilities.

    Args:
        width: number of tokens.
        eos: the token that ends a text, or several.
        table: from a prefix (a tuple of all token ids so far, the prompt's included) to the ``width`` probabilities of the next token:
            a function, or a mapping with a row for every prefix that is asked for.
        memory: where the next token depends on the last ``memory`` tokens only, their number: ``table`` is then asked about those.

    Rows are checked and normalised when they are first asked for, and kept.

    Raises:
        ValueError: ``width`` or ``eos`` out of range.
    """

    def __init__(
        self,
        width: int,
        eos: int | Sequence[int],
        table: Callable[[tuple[int, ...]], Row] | Mapping[tuple[int, ...], Row],
        *,
        memory: int | None = None,
    ) -> None:
        self.width = width
        self.eos_token_ids: tuple[int, ...] = (eos,) if isinstance(eos, int) else tuple(eos)
        if width < 1 or not all(0 <= token < width for token in self.eos_token_ids):
            raise ValueError(f"a model needs tokens, and end tokens among them: width {width}, end tokens {self.eos_token_ids}")
        if memory is not None and memory < 0:
            raise ValueError(f"memory is a number of tokens, not {memory}")
        self._table, self._memory = table, memory
        self._rows: dict[tuple[int, ...], torch.Tensor] = {}

    @classmethod
    def random(cls, width: int, depth: int, seed: int, *, eos: int | None = None, concentration: float = 1.0) -> TabularModel:
        """A model with a row of its own for every prefix, drawn from a symmetric Dirichlet distribution.

        Args:
            width: number of tokens.
            depth: after so many tokens (the prompt's included) the end token is certain, so that every text is finite.
            seed: the same model for the same seed.
            eos: the end token; ``None``: the last.
            concentration: of the Dirichlet distribution; below 1 rows become peaked.
        """
        end = width - 1 if eos is None else eos
        if depth < 0 or concentration <= 0:
            raise ValueError(f"depth must be at least 0 and concentration above 0, not {depth} and {concentration}")

        def row(prefix: tuple[int, ...]) -> np.ndarray:
            if len(prefix) >= depth:
                return np.eye(width)[end]
            # the generator is seeded by the prefix itself: rows do not depend on the order in which they are asked for
            generator = random.Random(f"{seed}:{prefix}")
            weights = np.array([generator.gammavariate(concentration, 1.0) for _ in range(width)]) + 1e-300
            return weights / weights.sum()

        return cls(width, end, row)

    def context(self, tokens: Sequence[int] = ()) -> Context:
        """A handle for ``tokens``."""
        return Context(tokens)

    def probabilities(self, prefix: Sequence[int]) -> torch.Tensor:
        """``float64[width]``: of the token after ``prefix``."""
        return self._row(Context(prefix)).exp()

    def next_logprobs(self, contexts: Sequence[Context]) -> torch.Tensor:
        """See :meth:`LanguageModel.next_logprobs`; probabilities of zero are ``-inf``."""
        if not contexts:
            return torch.zeros((0, self.width), dtype=torch.float64)
        return torch.stack([self._row(context) for context in contexts])

    def score(self, context: Context, continuations: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """See :meth:`LanguageModel.score`."""
        return score_by_steps(self, context, continuations)

    def hidden(self, contexts: Sequence[Context]) -> torch.Tensor:
        """A table has no hidden states: always a :class:`ModelError`."""
        raise ModelError("a tabular model has no hidden states; use a model that has layers (HFModel)")

    def enumerate(self, max_tokens: int, prompt: Sequence[int] = ()) -> dict[tuple[int, ...], float]:
        """Every text of at most ``max_tokens`` tokens, its end token included, with its probability given ``prompt``.

        Texts of probability zero are left out. The probabilities sum to that of ending within ``max_tokens``, 1 where that is certain.
        Takes time in proportion to the number of prefixes.
        """
        start, found = Context(prompt), {}
        stack: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
        while stack:
            text, mass = stack.pop()
            if len(text) == max_tokens:
                continue
            for token, p in enumerate(self._row(start.extend(text)).exp().tolist()):
                if p > 0 and token in self.eos_token_ids:
                    found[(*text, token)] = mass * p
                elif p > 0:
                    stack.append(((*text, token), mass * p))
        return found

    def _row(self, context: Context) -> torch.Tensor:
        prefix = context.tokens_from(0 if self._memory is None else context.length - self._memory)
        found = self._rows.get(prefix)
        if found is None:
            found = self._rows[prefix] = self._make(prefix)
        return found

    def _make(self, prefix: tuple[int, ...]) -> torch.Tensor:
        if callable(self._table):
            given = self._table(prefix)
        elif prefix in self._table:
            given = self._table[prefix]
        else:
            raise ModelError(f"the table has no row for the prefix {prefix}; give one, or a function of the prefix")
        row = torch.as_tensor(given, dtype=torch.float64)
        if row.shape != (self.width,) or not bool((row >= 0).all()) or abs(float(row.sum()) - 1) > 1e-6:
            raise ModelError(f"the row of the prefix {prefix} must be {self.width} probabilities that sum to 1, not {row.tolist()}")
        return (row / row.sum()).log()
