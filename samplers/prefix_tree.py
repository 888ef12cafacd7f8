"""What was learnt of a language model under a constraint: a tree of prefixes, each with a bound on what can come of it.

Every node holds, for its prefix, the model's probabilities of the tokens that may follow, and for each of them a *bound*: an upper
bound of the probability that the model, once it has written that token, finishes a text of the language (times ``exp(reward -
reward_bound)``). A token that was never followed has the bound 1. Following one replaces it by the sum over its own tokens of probability
times bound, so bounds fall as more is seen, and are exact when everything is.

Two samplers walk this tree: :mod:`.cars`, which corrects by rejection and is exact, and :mod:`.asap`, which does not and converges.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .target import Meter, Target, pick

if TYPE_CHECKING:
    import torch

    from .models.context import Context

__all__ = ["Branch", "PrefixTree"]


class Branch:
    """A prefix that was looked at.

    Attributes:
        prefix: generated token ids.
        context, state: of the model and of the automaton.
        tokens: those that may follow and have a probability, ``int64[k]`` ascending.
        probs: ``float64[k]``, their probabilities under the model.
        bounds: ``float64[k]``, see the module.
        mass: ``probs @ bounds``, the bound of this prefix.
    """

    __slots__ = ("bounds", "children", "context", "mass", "parent", "place", "prefix", "probs", "state", "tokens")

    def __init__(self, prefix: tuple[int, ...], context: Context, state: int, parent: Branch | None, place: int) -> None:
        self.prefix, self.context, self.state = prefix, context, state
        self.parent, self.place = parent, place
        self.children: dict[int, Branch] = {}
        self.tokens, self.probs = np.empty(0, np.int64), np.empty(0)
        self.bounds, self.mass = np.empty(0), 0.0

    def fill(self, row: torch.Tensor, allowed: torch.Tensor) -> None:
        """Takes the model's log-probabilities and what may follow."""
        probs = row.exp().masked_fill(~allowed, 0.0)
        kept = probs.nonzero()[:, 0]
        self.tokens, self.probs = kept.numpy(), probs[kept].numpy()
        self.bounds = np.ones(len(self.tokens))
        self.mass = min(1.0, float(self.probs.sum()))

    def lower(self, place: int, bound: float) -> None:
        """Lowers the bound of the token at ``place``, and so that of every prefix of this one."""
        branch: Branch | None = self
        while branch is not None and bound < branch.bounds[place]:
            branch.bounds[place] = bound
            branch.mass = min(branch.mass, float(branch.probs @ branch.bounds))
            place, bound, branch = branch.place, branch.mass, branch.parent

    def choose(self, source: random.Random) -> int:
        """A place, drawn in proportion to probability times bound; ``mass`` must be above zero."""
        return pick((self.probs * self.bounds).cumsum(), source)


class PrefixTree:
    """The tree of one target.

    Args:
        target: what is sampled.
        meter: its model, counted.
        max_entries: tokens that are kept in all nodes together; beyond that new prefixes are looked at and forgotten, which costs forwards
            again when they come again, and nothing else.
    """

    def __init__(self, target: Target, meter: Meter, max_entries: int) -> None:
        self.target, self.meter, self.max_entries = target, meter, max_entries
        self.entries = 0
        self.root = Branch((), target.root, target.start, None, 0)
        self._asked: dict[tuple[int, int], Branch] = {}
        self._fill([self.root])

    def below(self, branch: Branch, place: int) -> tuple[Branch, bool]:
        """The prefix one token further, and whether it is known; if not, :meth:`grow` must look at it before it is used."""
        found = branch.children.get(place)
        if found is not None:
            return found, True
        asked = self._asked.get((id(branch), place))
        if asked is None:
            token = int(branch.tokens[place])
            state = self.target.advance(branch.state, token)
            asked = Branch((*branch.prefix, token), branch.context.extend(token), state, branch, place)
            self._asked[id(branch), place] = asked
        return asked, False

    def grow(self) -> None:
        """Looks at all prefixes that :meth:`below` promised, in one forward."""
        asked = list(self._asked.values())
        self._asked.clear()
        if asked:
            self._fill(asked)

    def _fill(self, branches: Sequence[Branch]) -> None:
        for branch, row in zip(branches, self.meter.logprobs([branch.context for branch in branches])):
            branch.fill(row, self.target.allowed(branch.state, branch.prefix))
            parent = branch.parent
            if parent is None:
                continue
            parent.lower(branch.place, branch.mass)
            if self.entries + len(branch.tokens) <= self.max_entries:
                self.entries += len(branch.tokens)
                parent.children[branch.place] = branch
            else:
                # what is learnt below it is forgotten with it, so its parent must not rely on that
                branch.parent = None
