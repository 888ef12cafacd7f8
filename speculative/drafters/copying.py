"""Copying from the prompt, from the text so far, or from references, where the last few tokens occurred before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from samplers.registry import method

from .base import Lookup, Proposal
from .texts import Spot, Texts, follow

if TYPE_CHECKING:
    import torch

    from ..protocol import Outcome
    from ..rules import Place, Rules
    from ..tree import DraftTree

__all__ = ["NgramIndex", "PromptLookup", "ReferenceCopy"]

class NgramIndex:
    """Where each n-gram of a text occurred and was followed by a token. An appended token costs a few dictionary entries.

    Args:
        shortest, longest: of the n-grams.

    Attributes:
        tokens: the text.
    """

    def __init__(self, shortest: int, longest: int) -> None:
        if not 1 <= shortest <= longest:
            raise ValueError(f"n-grams have at least one token, and no more than the longest: {shortest}, {longest}")
        self.sizes = range(longest, shortest - 1, -1)
        self.tokens: list[int] = []
        self._last: dict[tuple[int, ...], int] = {}
        self._before: dict[int, list[int]] = {n: [] for n in self.sizes}  # of each position: the one before it with the same n-gram

    def append(self, token: int) -> None:
        """The text's next token."""
        tokens, here = self.tokens, len(self.tokens)
        for n in self.sizes:
            if here >= n:
                gram = tuple(tokens[here - n :])
                self._before[n].append(self._last.get(gram, -1))
                self._last[gram] = here
            else:
                self._before[n].append(-1)
        tokens.append(token)

    def find(self, tail: Sequence[int], count: int) -> list[int]:
        """Positions behind occurrences of the end of ``tail``: of the longest n-gram first, and of each the last occurrence first."""
        found: list[int] = []
        for n in self.sizes:
            if len(tail) < n:
                continue
            at = self._last.get(tuple(tail[len(tail) - n :]), -1)
            while at >= 0 and len(found) < count:
                if at not in found:
                    found.append(at)
                at = self._before[n][at]
        return found


@method(
    "prompt lookup decoding",
    law="exact",
    target="a drafter of fixed proposals: the law is the verifier's",
    cost="a few dictionary look-ups a step",
    paper="Saxena 2023 (prompt lookup decoding); Yang et al. 2023, arXiv:2304.04487",
    use="speculative.decode(..., drafter=PromptLookup())",
)
class PromptLookup(Lookup):
    """What followed the last occurrence of the last few tokens, in the prompt or in the text so far.

    Args:
        shortest, longest: of the n-grams that are looked for, the longest first.
        candidates: occurrences that are looked at, where the shape branches.
    """

    name = "prompt lookup"

    def __init__(self, shortest: int = 1, longest: int = 3, candidates: int = 4) -> None:
        if not 1 <= shortest <= longest or candidates < 1:
            raise ValueError(f"1 <= shortest <= longest, and at least one candidate: {shortest}, {longest}, {candidates}")
        self.longest, self.candidates = longest, candidates
        self._texts = Texts(lambda: NgramIndex(shortest, longest))

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        """Reads the prompts."""
        self._texts.begin(rows, places)

    def ready(self, row: int, place: Place, generator: torch.Generator) -> Callable[[DraftTree, int], Iterable[Proposal]]:
        """See :meth:`speculative.drafters.base.Lookup.ready`."""
        index, pending = self._texts.at(row, place.context)
        tail = [*index.tokens[-self.longest :], *pending]
        spots: list[Spot] = [(index.tokens, at) for at in index.find(tail, self.candidates)]
        return follow(spots, index.tokens, pending)

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Reads what came out."""
        self._texts.feed(outcomes)

    def end(self, row: int) -> None:
        """Forgets a row."""
        self._texts.end(row)


@method(
    "LLMA",
    law="exact",
    target="a drafter of fixed proposals: the law is the verifier's",
    cost="a few dictionary look-ups a step; the references are indexed once",
    paper="Yang et al. 2023, arXiv:2304.04487",
    use="speculative.decode(..., drafter=ReferenceCopy(references))",
)
class ReferenceCopy(Lookup):
    """Copies from references (retrieved documents, earlier answers, the file that is edited) where the last ``match`` tokens are in one.

    Args:
        references: token ids of each; they serve every row.
        match: tokens that must agree before anything is copied. How many are copied is the shape's to say.
        prompt: whether each row's prompt is a reference of it as well (the paper's retrieved documents are part of the prompt).
        candidates: occurrences that are looked at, where the shape branches.
    """

    name = "references"

    def __init__(self, references: Iterable[Sequence[int]] = (), *, match: int = 2, prompt: bool = True, candidates: int = 4) -> None:
        self.match, self.prompt, self.candidates = match, prompt, candidates
        self._shared = NgramIndex(match, match)
        for reference in references:
            for token in (*reference, -1):
                self._shared.append(int(token))
        self._prompts: dict[int, NgramIndex] = {}

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        """Reads the prompts."""
        for row, place in zip(rows, places):
            if self.prompt:
                self._prompts[row] = self._index(place)

    def _index(self, place: Place) -> NgramIndex:
        index = NgramIndex(self.match, self.match)
        for token in (*place.context.tokens[: place.start], -1):
            index.append(token)
        return index

    def ready(self, row: int, place: Place, generator: torch.Generator) -> Callable[[DraftTree, int], Iterable[Proposal]]:
        """See :meth:`speculative.drafters.base.Lookup.ready`."""
        tail = place.context.tokens_from(place.context.length - self.match)
        spots: list[Spot] = []
        for index in (self._prompts.get(row), self._shared):
            if index is not None and len(spots) < self.candidates:
                spots += [(index.tokens, at) for at in index.find(tail, self.candidates - len(spots))]
        return follow(spots, (), ())

    def end(self, row: int) -> None:
        """Forgets a row."""
        self._prompts.pop(row, None)
