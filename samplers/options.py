"""The probability that a model writes one of some given texts, summed over the ways to write it in tokens.

A text can be cut into tokens in many ways, and a model gives each some probability; only the sum is the probability of the *text*. The
walk goes down the tree of token sequences that spell a beginning of an option: a node is a sequence, asked of the model once for all
options that begin with its bytes; its children are the tokens of the vocabulary's trie that go on. Sequences of the tokenizer's own
segmentation come first, then the rest, the most probable first. What is not walked is known to be small: the probabilities of the
sequences left open bound what is missing, for every option.

**What counts** is told by an :class:`After`. Texts as such are not disjoint events (who writes ``ten`` has also begun with ``te``), and the
probability of ``te`` as a beginning holds that of ``ten``. With :data:`COMPLETE` the text has to end behind the option; with
:data:`PREFIX` anything may follow; and with a set of bytes one of those has to follow (or the end, where that is allowed).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from grammars.errors import ModelError

from .registry import method

if TYPE_CHECKING:
    from grammars.vocabulary import Vocabulary

    from .models import Context, LanguageModel

__all__ = ["COMPLETE", "PREFIX", "After", "Measured", "measure", "overlap"]

_ROWS = 64  # contexts of one call of the model: bounds the memory of its answer


@dataclass(frozen=True, slots=True)
class After:
    """What has to come after an option.

    Attributes:
        end: an end-of-sequence token may come.
        bytes: the bytes of which one may come; ``None``: anything, the end and special tokens too, so nothing is looked at.
    """

    end: bool = True
    bytes: frozenset[int] | None = frozenset()


COMPLETE = After()
PREFIX = After(bytes=None)


@dataclass(frozen=True, slots=True)
class Measured:
    """The probability of one option.

    Attributes:
        logprob: natural logarithm of the sum over the tokenisations that were walked; a lower bound of the whole.
        log_missed: natural logarithm of an upper bound of what the others add; ``-inf`` where none is left.
        canonical: the tokenizer's own segmentation.
        canonical_logprob: the part of ``logprob`` that is written in this way.
        tokenisations: number of tokenisations in the sum.
        contexts: of the whole call: how many contexts the model was asked about.
    """

    logprob: float
    log_missed: float
    canonical: tuple[int, ...]
    canonical_logprob: float
    tokenisations: int
    contexts: int


def overlap(options: Sequence[bytes], after: After) -> tuple[int, int] | None:
    """Two options that one text may stand for at once (``options[i]`` at the beginning of ``options[j]``), or ``None``."""
    places = {option: i for i, option in enumerate(options)}
    for j, option in enumerate(options):
        for length in range(len(option)):
            i = places.get(option[:length])
            if i is not None and (after.bytes is None or option[length] in after.bytes):
                return i, j
    return None


@dataclass(slots=True)
class _Rest:
    """How tokens go on with the rest of an option.

    Attributes:
        inside: ids of tokens that spell a beginning of the rest, with the number of its bytes.
        across: ids of tokens that spell all of it and more, of the kind that may come after: ``int64[*]``.
    """

    inside: list[tuple[int, int]]
    across: torch.Tensor


class _Tokens:
    """Look-ups in the vocabulary's trie."""

    def __init__(self, vocabulary: Vocabulary, width: int, after: After) -> None:
        self._trie, self._width, self._after = vocabulary.trie, width, after
        self._children: dict[int, dict[int, int]] = {}
        self._rests: dict[bytes, _Rest] = {}

    def children(self, node: int) -> dict[int, int]:
        """Byte -> child."""
        found = self._children.get(node)
        if found is None:
            found, at, end = {}, node + 1, int(self._trie.end[node])
            while at < end:
                found[int(self._trie.byte[at])] = at
                at = int(self._trie.end[at])
            self._children[node] = found
        return found

    def _ids(self, first: int, end: int) -> np.ndarray:
        ids = self._trie.tokens[self._trie.first[first] : self._trie.first[end]]
        return ids[ids < self._width].astype(np.int64)

    def _below(self, node: int) -> torch.Tensor:
        """Ids of the tokens below a node, that go on with a byte that may come after."""
        if self._after.bytes is None:
            return torch.from_numpy(self._ids(node + 1, int(self._trie.end[node])))
        parts = [self._ids(child, int(self._trie.end[child])) for byte, child in self.children(node).items() if byte in self._after.bytes]
        return torch.from_numpy(np.concatenate(parts) if parts else np.empty(0, np.int64))

    def rest(self, data: bytes) -> _Rest:
        """See :class:`_Rest`; of the empty rest ``across`` holds the tokens that may come after the option."""
        found = self._rests.get(data)
        if found is None:
            inside: list[tuple[int, int]] = []
            node = 0
            for length, byte in enumerate(data, 1):
                node = self.children(node).get(byte, -1)
                if node < 0:
                    break
                inside += [(token, length) for token in self._ids(node, node + 1).tolist()]
            across = torch.empty(0, dtype=torch.int64) if node < 0 else self._below(node)
            found = self._rests[data] = _Rest(inside, across)
        return found


@dataclass(slots=True)
class _Node:
    """A token sequence that spells a beginning of an option."""

    context: Context
    tokens: tuple[int, ...]
    length: int  # of its bytes
    options: list[int]  # those that begin with them
    logprob: float


@dataclass(slots=True)
class _Sum:
    option: bytes
    canonical: tuple[int, ...]
    logprob: float = -math.inf
    canonical_logprob: float = -math.inf
    tokenisations: int = 0

    def add(self, logprob: float, ways: int, canonical: bool = False) -> None:
        if logprob > -math.inf:
            self.logprob = float(np.logaddexp(self.logprob, logprob))
            self.tokenisations += ways
        if canonical:
            self.canonical_logprob = float(np.logaddexp(self.canonical_logprob, logprob))


@dataclass
class _Walk:
    model: LanguageModel
    tokens: _Tokens
    after: After
    ends: torch.Tensor
    sums: list[_Sum]
    open: dict[tuple[int, ...], _Node] = field(default_factory=dict)
    contexts: int = 0

    def run(self, wanted: Sequence[tuple[int, ...]]) -> None:
        """Opens nodes; those above come before those below."""
        for first in range(0, len(wanted), _ROWS):
            part = wanted[first : first + _ROWS]
            root = self.root
            rows = self.model.next_logprobs([root.extend(tokens) if tokens else root for tokens in part]).to("cpu", torch.float64)
            self.contexts += len(part)
            for tokens, row in zip(part, rows):
                self._expand(self.open.pop(tokens), row)

    def begin(self, root: Context) -> None:
        self.root = root
        self.open[()] = _Node(root, (), 0, list(range(len(self.sums))), 0.0)
        canonical = {s.canonical[:k] for s in self.sums for k in range(len(s.canonical) + (self.after.bytes is not None))}
        self.run(sorted(canonical, key=len))

    def _expand(self, node: _Node, row: torch.Tensor) -> None:
        children: dict[int, tuple[int, list[int]]] = {}
        for i in node.options:
            total, data = self.sums[i], self.sums[i].option[node.length :]
            rest = self.tokens.rest(data)
            if not data and self.after.bytes is not None:
                ids = torch.cat([rest.across, self.ends]) if self.after.end else rest.across
                total.add(node.logprob + float(row[ids].logsumexp(0)), 1, node.tokens == total.canonical)
                continue
            if len(rest.across):
                total.add(node.logprob + float(row[rest.across].logsumexp(0)), len(rest.across))
            for token, length in rest.inside:
                if length == len(data) and self.after.bytes is None:
                    total.add(node.logprob + float(row[token]), 1, (*node.tokens, token) == total.canonical)
                else:
                    children.setdefault(token, (node.length + length, []))[1].append(i)
        for token, (length, options) in children.items():
            logprob = node.logprob + float(row[token])
            if logprob > -math.inf or any(self.sums[i].canonical[: len(node.tokens) + 1] == (*node.tokens, token) for i in options):
                tokens = (*node.tokens, token)
                self.open[tokens] = _Node(node.context.extend(token), tokens, length, options, logprob)

    def missed(self) -> list[float]:
        """For every option the logarithm of the mass of the open nodes that begin it."""
        parts: list[list[float]] = [[-math.inf] for _ in self.sums]
        for node in self.open.values():
            for i in node.options:
                parts[i].append(node.logprob)
        return [float(np.logaddexp.reduce(part)) for part in parts]

    def most_needed(self, lacking: Iterable[int], count: int) -> list[tuple[int, ...]]:
        """The open nodes that may add most to what was found of an option that is not yet known well enough."""
        wanting = set(lacking)
        scores: list[tuple[float, tuple[int, ...]]] = []
        for node in self.open.values():
            found = min((self.sums[i].logprob for i in node.options if i in wanting), default=math.inf)
            if found < math.inf:
                scores.append((max(found, -1e300) - node.logprob, node.tokens))
        return [tokens for _, tokens in sorted(scores)[:count]]


@method(
    "probabilities of options",
    law="bounded",
    target=(
        "the model's probability of each text, summed over its tokenisations: what is not walked is bounded and reported "
        "(tolerance=0 walks all, which is exact)"
    ),
    cost="a row for every beginning of a tokenisation that is walked, in batches; options and tokenisations share beginnings",
    paper="Cao, Rimell 2021, EMNLP (marginal over tokenisations)",
    use="guided.choose(model, prompt, options), guided.field_probabilities(...)",
)
def measure(
    model: LanguageModel,
    vocabulary: Vocabulary,
    root: Context,
    options: Sequence[bytes],
    after: After = COMPLETE,
    *,
    tolerance: float = 1e-3,
    max_contexts: int = 512,
) -> list[Measured]:
    """Probabilities of ``options`` as what the model writes after ``root``.

    Args:
        model: see :mod:`samplers.models`.
        vocabulary: what its tokens write.
        root: the prompt.
        options: the texts, different, none empty unless something has to come after it.
        after: what has to come after one of them.
        tolerance: the walk ends when for every option what may be missing is at most this share of what was found; 0 walks every
            tokenisation.
        max_contexts: it ends also when the model was asked about so many contexts; those of the tokenizer's own segmentations are always
            asked about.

    Raises:
        ValueError: an argument out of range, or no option.
        ModelError: the vocabulary is not that of the model.
        VocabularyError: the vocabulary cannot write an option.
    """
    if not options or len(set(options)) < len(options):
        raise ValueError("give one option at least, and each once")
    if after.bytes is None and not all(options):
        raise ValueError("every text begins with the empty one: its probability as a beginning is 1")
    if not tolerance >= 0 or max_contexts < 0:
        raise ValueError(f"tolerance and max_contexts must be at least 0, not {tolerance} and {max_contexts}")
    sums = [_Sum(option, tuple(vocabulary.encode(option))) for option in options]
    if max(max(s.canonical, default=0) for s in sums) >= model.width:
        raise ModelError(f"the vocabulary has tokens beyond the model's {model.width} logits: make it with logits_size={model.width}")
    ends = torch.tensor([token for token in vocabulary.eos_token_ids if token < model.width], dtype=torch.int64)
    walk = _Walk(model, _Tokens(vocabulary, model.width, after), after, ends, sums)
    walk.begin(root)
    least = math.log(tolerance) if tolerance else -math.inf
    while True:
        missed = walk.missed()
        lacking = [i for i, s in enumerate(sums) if missed[i] > -math.inf and missed[i] > s.logprob + least]
        room = max_contexts - walk.contexts
        if not lacking or room < 1:
            break
        walk.run(walk.most_needed(lacking, min(room, _ROWS)))
    return [Measured(s.logprob, m, s.canonical, s.canonical_logprob, s.tokenisations, walk.contexts) for s, m in zip(sums, missed)]
