"""SAM-Decoding: copies what followed the longest suffix of the text that occurred before, in it or in a corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from samplers.registry import method

from .base import Lookup, Proposal, subset
from .suffix_automaton import SuffixAutomaton
from .texts import Spot, Texts, follow

if TYPE_CHECKING:
    import torch

    from ..protocol import Drafter, Outcome, Shape, StepInfo
    from ..rules import Place, Rules
    from ..tree import DraftTree

__all__ = ["SamDrafter"]


class _Text:
    """A row's text with its automaton, and the cursors of its end in both automata."""

    def __init__(self, static: SuffixAutomaton | None) -> None:
        self.own, self.static = SuffixAutomaton(), static
        self.tokens = self.own.tokens
        self.here = self.there = (0, 0)

    def append(self, token: int) -> None:
        """The text's next token. The cursor moves first, so that the end of the text does not match itself."""
        self.here = self.own.step(*self.here, token)
        self.own.append(token)
        if self.static is not None:
            self.there = self.static.step(*self.there, token)

    def cursors(self, pending: Sequence[int]) -> tuple[tuple[int, int], tuple[int, int]]:
        """Where they are after further tokens."""
        here, there = self.here, self.there
        for token in pending:
            here = self.own.step(*here, token)
            there = there if self.static is None else self.static.step(*there, token)
        return here, there


@method(
    "SAM-Decoding",
    law="exact",
    target="a drafter of fixed proposals: the law is the verifier's",
    cost="amortised constant a token; the corpus's automaton takes about a microsecond and half a kilobyte a token, once",
    paper="Hu et al. 2024, arXiv:2411.10666",
    use="speculative.decode(..., drafter=SamDrafter(corpus, fallback=TokenRecycling(width)))",
)
class SamDrafter(Lookup):
    """Two suffix automata, a static one of a corpus and a dynamic one of each row's prompt and output, say how long a suffix of the text
    occurred before. The longer match is copied from (the static one only where it is longer by ``bias``); where it is shorter than
    ``threshold`` the fallback drafts.

    Args:
        corpus: token ids of documents, or their automaton, which serves any number of drafters.
        fallback: another drafter; ``None``: short matches are copied too.
        threshold: see above.
        bias: see above.
    """

    name = "suffix automaton"

    def __init__(
        self,
        corpus: SuffixAutomaton | Iterable[Sequence[int]] | None = None,
        *,
        fallback: Drafter | None = None,
        threshold: int = 5,
        bias: int = 5,
    ) -> None:
        if threshold < 1 or bias < 0:
            raise ValueError(f"threshold is at least 1 and bias not negative: {threshold}, {bias}")
        static = SuffixAutomaton(corpus) if corpus is not None and not isinstance(corpus, SuffixAutomaton) else corpus
        self.static, self.fallback = static, fallback
        self.threshold, self.bias = threshold, bias
        self._texts = Texts(lambda: _Text(static))

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        """Reads the prompts."""
        self._texts.begin(rows, places)
        if self.fallback is not None:
            self.fallback.begin(rows, places, rules)

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Shape], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        """See :meth:`speculative.protocol.Drafter.draft`."""
        if self.fallback is None:
            return super().draft(places, shapes, step, generators)
        long = [self._match(row, place)[0] >= self.threshold for row, place in zip(step.rows, places)]
        found: dict[int, DraftTree] = {}
        for chosen, draft in ((True, super().draft), (False, self.fallback.draft)):
            some = [i for i, it in enumerate(long) if it == chosen]
            if some:
                trees = draft([places[i] for i in some], [shapes[i] for i in some], subset(step, some), [generators[i] for i in some])
                found.update(zip(some, trees))
        return [found[i] for i in range(len(places))]

    def ready(self, row: int, place: Place, generator: torch.Generator) -> Callable[[DraftTree, int], Iterable[Proposal]]:
        """See :meth:`speculative.drafters.base.Lookup.ready`."""
        _, spots, own, pending = self._match(row, place)
        return follow(spots, own, pending)

    def _match(self, row: int, place: Place) -> tuple[int, list[Spot], Sequence[int], tuple[int, ...]]:
        """Length of the match, where it is copied from (the other automaton's place second), the row's text, and what stands behind it."""
        text, pending = self._texts.at(row, place.context)
        here, there = text.cursors(pending)
        spots: list[tuple[int, Spot]] = []
        if here[1]:
            spots.append((here[1], (text.tokens, text.own.behind(*here))))
        if there[1] and self.static is not None:
            static = (there[1], (self.static.tokens, self.static.behind(*there)))
            spots.insert(0 if there[1] > here[1] + self.bias else len(spots), static)
        return spots[0][0] if spots else 0, [spot for _, spot in spots], text.tokens, pending

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Reads what came out."""
        self._texts.feed(outcomes)
        if self.fallback is not None:
            self.fallback.observe(outcomes)

    def end(self, row: int) -> None:
        """Forgets a row."""
        self._texts.end(row)
        if self.fallback is not None:
            self.fallback.end(row)
