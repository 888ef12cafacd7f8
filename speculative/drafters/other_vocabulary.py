"""Draft models with another vocabulary than the target's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from grammars.errors import VocabularyError
from samplers.registry import method

from ..rules import DEAD
from ..tree import DraftTree
from .base import Lookup, Proposal
from .model import ModelDrafter
from .texts import Texts
from .vocabularies import Respelled, Shared

if TYPE_CHECKING:
    from grammars.vocabulary import Vocabulary
    from samplers.models.context import Context
    from samplers.models.protocol import LanguageModel

    from ..protocol import Outcome, Shape, StepInfo
    from ..rules import Place, Rules

__all__ = ["IntersectionDrafter", "StringDrafter"]

_LOOK = 32  # of the draft model's best tokens, how many are tried before it is given up that one may follow
_PAPER = "Timor et al. 2025, arXiv:2502.05202"


@method(
    "string-level drafts",
    law="exact",
    target="a drafter of fixed proposals: the law is the verifier's",
    cost="forwards of the draft model; the text's end is tokenised twice a step",
    paper=_PAPER + " (SLEM)",
    use="speculative.decode(..., drafter=StringDrafter(model, draft_vocabulary, target_vocabulary))",
)
class StringDrafter(Lookup):
    """The draft model goes on with the *text*, greedily and in its own tokens; what it writes is tokenised for the target.

    Of a constraint the draft model's tokens are told by their bytes: the most probable one that keeps the text in the language is taken.

    Args:
        model: the draft model.
        draft, target: the vocabularies.
        length: tokens that the draft model writes for a draft; the shape says how many of the target's are used.
        prefix: tokens that the draft model wants before every text (its beginning-of-sequence token).
    """

    name = "strings"

    def __init__(
        self, model: LanguageModel, draft: Vocabulary, target: Vocabulary, *, length: int = 6, prefix: Sequence[int] = ()
    ) -> None:
        if length < 1:
            raise ValueError(f"length is at least 1, not {length}")
        self.model, self.draft_vocabulary, self.target, self.length = model, draft, target, length
        self._texts = Texts(lambda: Respelled(target, draft, prefix))
        self._drafts: dict[int, list[int]] = {}
        self._scores = getattr(model, "next_logits", model.next_logprobs)

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        """Reads the prompts."""
        self._texts.begin(rows, places)

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Shape], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        """See :meth:`speculative.protocol.Drafter.draft`."""
        try:
            self._drafts = dict(zip(step.rows, self._write(places, step)))
            return super().draft(places, shapes, step, generators)
        finally:
            self._drafts = {}

    def ready(self, row: int, place: Place, generator: torch.Generator) -> Callable[[DraftTree, int], Iterable[Proposal]]:
        """See :meth:`speculative.drafters.base.Lookup.ready`."""
        tokens = self._drafts[row]

        def found(tree: DraftTree, node: int) -> Iterator[Proposal]:
            at = tree.depths[node]
            if at < len(tokens) and [tree.tokens[n] for n in tree.path(node)] == tokens[:at]:
                yield tokens[at], None

        return found

    # ------------------------------------------------------------ the draft model's text
    def _write(self, places: Sequence[Place], step: StepInfo) -> list[list[int]]:
        contexts = [self._context(row, place) for row, place in zip(step.rows, places)]
        texts: list[bytes] = [b""] * len(places)
        states = [place.state for place in places]
        ended: dict[int, bool] = {}  # of rows that write no more: whether with an end token
        for _ in range(self.length):
            live = [i for i in range(len(places)) if i not in ended]
            if not live:
                break
            scores = self._scores([contexts[i] for i in live])
            best = scores.topk(min(_LOOK, scores.shape[-1])).indices.tolist()
            for i, tokens in zip(live, best):
                chosen = self._choose(tokens, step.rules[i], states[i])
                if chosen is None or chosen[0] in self._ends:
                    ended[i] = chosen is not None
                    continue
                token, states[i] = chosen
                texts[i] += self.draft_vocabulary.tokens[token]
                contexts[i] = contexts[i].extend(token)
        return [self._spell(text, ended.get(i, False), step.rules[i]) for i, text in enumerate(texts)]

    def _context(self, row: int, place: Place) -> Context:
        text, pending = self._texts.at(row, place.context)
        return self.model.context(text.ids(pending))

    @property
    def _ends(self) -> set[int]:
        return {*self.draft_vocabulary.eos_token_ids, *self.model.eos_token_ids}

    def _choose(self, tokens: Sequence[int], rules: Rules, state: int) -> tuple[int, int] | None:
        """The first token that keeps the text in the language, and the state behind it."""
        automaton, vocabulary = rules.automaton, self.draft_vocabulary
        for token in tokens:
            if token in self._ends:
                if automaton is None or automaton.accepts(state):
                    return token, state
            elif vocabulary.is_text(token):
                after = state if automaton is None else automaton.advance_bytes(state, vocabulary.tokens[token])
                if after != DEAD:
                    return token, after
        return None

    def _spell(self, text: bytes, ends: bool, rules: Rules) -> list[int]:
        try:
            tokens = self.target.encode(text) if text else []
        except VocabularyError:  # the target cannot write it
            return []
        return [*tokens, min(rules.ends)] if ends and rules.ends else tokens

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Reads what came out."""
        self._texts.feed(outcomes)

    def end(self, row: int) -> None:
        """Forgets a row."""
        self._texts.end(row)


@method(
    "token-level intersection",
    law="exact",
    target="a drafter that draws from a law over the shared tokens: the law of the text is the verifier's",
    cost="forwards of the draft model; the text's end is tokenised once a step",
    paper=_PAPER + " (TLI)",
    use="speculative.decode(..., drafter=IntersectionDrafter(model, draft_vocabulary, target_vocabulary))",
)
class IntersectionDrafter(ModelDrafter):
    """The draft model's law restricted to the tokens that both vocabularies have, normalised again: a law over the target's tokens like
    that of any draft model, so that every shape and exact verifier goes with it. End tokens are shared: all of the draft model's mass on
    its own goes to the target's first one.

    Args:
        model: the draft model.
        draft, target: the vocabularies.
        prefix: tokens that the draft model wants before every text (its beginning-of-sequence token).
        temperature: see :class:`~speculative.drafters.model.ModelDrafter`.
    """

    name = "shared tokens"

    def __init__(
        self,
        model: LanguageModel,
        draft: Vocabulary,
        target: Vocabulary,
        *,
        prefix: Sequence[int] = (),
        temperature: float = 1.0,
    ) -> None:
        super().__init__(model, temperature=temperature)
        self.shared = Shared(target, draft)
        self._width = target.logits_size
        self._draft_ends = sorted({*draft.eos_token_ids, *model.eos_token_ids})
        self._texts = Texts(lambda: Respelled(target, draft, prefix))
        self._roots: list[tuple[int, Context]] = []  # of each tree: length of its root's context, and the draft model's context there

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        """Reads the prompts."""
        self._texts.begin(rows, places)

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Shape], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        """See :meth:`speculative.protocol.Drafter.draft`."""
        self._roots = []
        for row, place in zip(step.rows, places):
            text, pending = self._texts.at(row, place.context)
            self._roots.append((place.context.length, self.model.context(text.ids(pending))))
        return super().draft(places, shapes, step, generators)

    def laws(self, places: Sequence[Place], rules: Sequence[Rules], step: StepInfo, which: Sequence[int]) -> torch.Tensor:
        """See :meth:`speculative.drafters.model.ModelDrafter.laws`."""
        contexts = []
        for place, i in zip(places, which):
            length, root = self._roots[i]
            contexts.append(root.extend(self._ids(place.context.tokens_from(length))))
        scores: torch.Tensor = self._scores(contexts) / self.temperature
        mapped = scores.new_full((len(places), self._width), float("-inf"))
        mapped[:, self.shared.target_ids] = scores[:, self.shared.draft_ids]
        for i, rule in enumerate(rules):
            ends = [end for end in rule.ends if end < self._width]
            if ends and self._draft_ends:
                mapped[i, min(ends)] = scores[i, self._draft_ends].logsumexp(-1)
        return step.law(mapped, places, rules)

    def _ids(self, tokens: Sequence[int]) -> list[int]:
        """The draft model's ids of drafted tokens. All were drawn among shared ones, or where nothing shared may follow."""
        known = self.shared.to_draft
        found: list[int] = []
        for token in tokens:
            if token in known:
                found.append(known[token])
            else:
                further = Respelled(self.shared.target, self.shared.draft)
                further.append(token)
                found += further.ids()
        return found

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Reads what came out."""
        self._texts.feed(outcomes)

    def end(self, row: int) -> None:
        """Forgets a row."""
        self._texts.end(row)
