"""A causal language model as a judge: the log-odds of "yes" over "no" as the answer to a question about a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from grammars.errors import ModelError

from ..models.context import Context
from ..models.protocol import LanguageModel
from .protocol import Candidate, ValueBase
from .texts import decoder, generated

__all__ = ["Judge"]

_ROWS = 512  # next-token rows that are in memory at once


class Judge(ValueBase):
    """``log P(yes) - log P(no)`` of a judge's answer, summed over the ways to say each.

    The judge reads one user's message, in its chat template where it has one; candidates share its beginning, which a model with a cache of
    prefixes evaluates once.

    Args:
        model: the judge; may be the model that generates.
        tokenizer: the judge's tokenizer.
        question: the message; ``{prompt}`` and ``{text}`` stand for the candidate's. Put what differs last.
        texts: what reads the candidates' tokens: a vocabulary, tokenizer or function; ``None``: ``tokenizer``.
        yes, no: ways to answer. Each may be several tokens.
        system: a system message.

    Raises:
        ModelError: no way to say yes or no is left, the same tokens say both, or the question does not mention ``{text}``.
    """

    def __init__(
        self,
        model: LanguageModel,
        tokenizer: Any,
        question: str,
        *,
        texts: Any = None,
        yes: Sequence[str] = ("Yes", "yes"),
        no: Sequence[str] = ("No", "no"),
        system: str | None = None,
    ) -> None:
        if "{text}" not in question:
            raise ModelError("the question of a judge must say where the text stands: {text}")
        self.model, self.tokenizer, self.question, self.system = model, tokenizer, question, system
        self._decode = decoder(tokenizer if texts is None else texts)
        self._chat = bool(getattr(tokenizer, "chat_template", None))
        self.yes, self.no = self._answers(yes), self._answers(no)
        if not self.yes or not self.no or set(self.yes) & set(self.no):
            raise ModelError(f"a judge needs ways to say yes and ways to say no that differ in their tokens, not {yes!r} and {no!r}")

    def _answers(self, ways: Sequence[str]) -> list[tuple[int, ...]]:
        """The token ids of the answers; behind plain text an answer follows a blank. None is the beginning of another one."""
        found = {tuple(self.tokenizer(way if self._chat else f" {way}", add_special_tokens=False)["input_ids"]) for way in ways}
        found.discard(())
        # an answer that begins with another one is counted by it already
        return sorted(a for a in found if not any(a[:k] in found for k in range(1, len(a))))

    def message(self, candidate: Candidate) -> str:
        """What the judge is asked about a candidate."""
        parts = {"{prompt}": self._decode(candidate.prompt), "{text}": self._decode(generated(candidate))}
        found, rest = "", self.question
        while rest:
            # left to right, so that a text with "{prompt}" in it is left alone
            places = [(rest.index(name), name) for name in parts if name in rest]
            if not places:
                break
            at, name = min(places)
            found, rest = found + rest[:at] + parts[name], rest[at + len(name) :]
        return found + rest

    def _context(self, candidate: Candidate) -> Context:
        message = self.message(candidate)
        if not self._chat:
            return Context(self.tokenizer(message)["input_ids"])
        messages = [{"role": "user", "content": message}]
        if self.system is not None:
            messages.insert(0, {"role": "system", "content": self.system})
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return Context(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        """See :meth:`Value.values`; answers of one token cost one row of the model a candidate."""
        answers = [*self.yes, *self.no]
        prefixes = sorted({answer[:k] for answer in answers for k in range(len(answer))})
        found: list[float] = []
        size = max(1, _ROWS // len(prefixes))
        for begin in range(0, len(candidates), size):
            part = [self._context(candidate) for candidate in candidates[begin : begin + size]]
            asked = [context.extend(prefix) for context in part for prefix in prefixes]
            rows = self.model.next_logprobs(asked).to("cpu", torch.float64).view(len(part), len(prefixes), -1)
            yes, no = (self._mass(rows, prefixes, ways) for ways in (self.yes, self.no))
            found.extend((yes - no).tolist())
        return found

    @staticmethod
    def _mass(rows: torch.Tensor, prefixes: list[tuple[int, ...]], ways: list[tuple[int, ...]]) -> torch.Tensor:
        """``float64[rows]``: log-probability that the answer begins with one of ``ways``."""
        place = {prefix: i for i, prefix in enumerate(prefixes)}
        scores = [sum(rows[:, place[way[:k]], token] for k, token in enumerate(way)) for way in ways]
        return torch.stack([torch.as_tensor(score) for score in scores]).logsumexp(0)
