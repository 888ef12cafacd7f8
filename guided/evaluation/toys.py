"""Small sampling problems whose answer is known: a tabular model, a constraint, and the target by enumeration.

A :class:`Case` is everything a sampler is given, and the law it must follow. That law is found by brute force and without any part
of what is measured: every sequence of tokens up to the bound is written out, a plain predicate (:mod:`re`, a set, a counter of
brackets) says which are in the language, and the model's probabilities are multiplied. ``tests/laws`` and ``guided bench laws`` run on
:func:`cases`.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from grammars import Automaton, Choice, Constraint, Gbnf, Regex, Vocabulary

__all__ = ["END", "TOKENS", "Case", "Law", "Tokens", "case", "cases", "distortion", "names", "total_variation", "vocabulary"]

Tokens = tuple[int, ...]
Law = dict[Tokens, float]
"""Probability of every sequence of tokens, the one that ends the text included."""
Table = Callable[[Tokens], Sequence[float]]
"""Probabilities of the next token after a prefix, the prompt included."""
Reward = Callable[[Tokens, bool], float]

TOKENS = (b"a", b"b", b"c", b"ab", b"bc", b"", b"<pad>")
"""The vocabulary of every case; most texts can be spelt in several ways."""
A, B, C, AB, BC, END, PAD = range(len(TOKENS))


@cache
def vocabulary() -> Vocabulary:
    """The vocabulary of the cases: :data:`TOKENS`, with one end of sequence and one special token."""
    return Vocabulary(list(TOKENS), eos_token_ids=[END], special_token_ids=[PAD])


@dataclass(frozen=True)
class Case:
    """One problem, and its answer.

    Attributes:
        name: what it is called.
        about: what is hard about it.
        table: the model, as a function of the whole prefix.
        constraint: the language; ``None`` leaves the text free.
        accepts: the same language as a predicate on texts, written independently.
        max_tokens: of a text, the end of sequence included.
        prompt: what the text follows.
        temperature: of the model's distribution, token by token.
        reward: log-potential of a prefix and whether it is finished, or ``None``. Only its value on the finished text is in the law.
        check: a further constraint, whether a token may follow a prefix, or ``None``.
    """

    name: str
    about: str
    table: Table
    constraint: Constraint | None
    accepts: Callable[[bytes], bool]
    max_tokens: int
    prompt: Tokens = ()
    temperature: float = 1.0
    reward: Reward | None = None
    check: Callable[[Tokens, int], bool] | None = None

    # ------------------------------------------------------------ what a sampler is given
    @cached_property
    def model(self) -> Any:
        """A :class:`samplers.models.TabularModel` of the table."""
        from samplers.models import TabularModel

        return TabularModel(len(TOKENS), END, self.table)

    @cached_property
    def automaton(self) -> Automaton | None:
        """The compiled constraint."""
        return None if self.constraint is None else self.constraint.compile(vocabulary())

    def target(self, **changes: Any) -> Any:
        """The :class:`samplers.target.Target` of this case; ``changes`` replace its fields."""
        from samplers.target import Target

        given: dict[str, Any] = {"model": self.model, "prompt": self.prompt, "automaton": self.automaton, "max_tokens": self.max_tokens}
        given |= {"temperature": self.temperature, "reward": self.reward, "check": self.check}
        return Target(**(given | changes))

    # ------------------------------------------------------------ what it must answer
    @cached_property
    def masses(self) -> Law:
        """What the target gives every text, not normalised: the model's probability, times ``exp(reward)``."""
        found = {}
        ids = [t for t in range(len(TOKENS)) if t != END and (self.constraint is None or t != PAD)]
        for length in range(self.max_tokens):
            for ids_of_text in itertools.product(ids, repeat=length):
                tokens = (*ids_of_text, END)
                if self.accepts(b"".join(TOKENS[t] for t in ids_of_text)) and self._passes(tokens):
                    mass = self.probability(tokens)
                    if mass and self.reward is not None:
                        mass *= math.exp(self.reward(tokens, True))
                    if mass:
                        found[tokens] = mass
        return found

    def _passes(self, tokens: Tokens) -> bool:
        return self.check is None or all(self.check(tokens[:i], token) for i, token in enumerate(tokens))

    @cached_property
    def z(self) -> float:
        """The normaliser: the mass of the whole target."""
        return math.fsum(self.masses.values())

    @cached_property
    def log_z(self) -> float:
        """Its logarithm."""
        return math.log(self.z)

    @cached_property
    def reward_bound(self) -> float:
        """The largest reward of a finished text; 0 without a reward."""
        return 0.0 if self.reward is None else max(self.reward(tokens, True) for tokens in self.masses)

    @cached_property
    def law(self) -> Law:
        """The target: probabilities of all texts, most probable first."""
        return {s: m / self.z for s, m in sorted(self.masses.items(), key=lambda item: (-item[1], item[0]))}

    @cached_property
    def masked(self) -> Law:
        """The law of local masking: at each step the model restricted to tokens that some text of the target goes on with."""
        children: dict[Tokens, set[int]] = {}
        for tokens in self.masses:
            for i, token in enumerate(tokens):
                children.setdefault(tokens[:i], set()).add(token)
        found = {}
        for tokens in self.masses:
            found[tokens] = 1.0
            for i, token in enumerate(tokens):
                row = self.row(tokens[:i])
                found[tokens] *= row[token] / math.fsum(row[t] for t in children[tokens[:i]])
        return found

    def probability(self, tokens: Tokens) -> float:
        """The model's probability of a sequence after the prompt, at the case's temperature; nothing restricted."""
        p = 1.0
        for i, token in enumerate(tokens):
            p *= self.row(tokens[:i])[token]
            if not p:
                break
        return p

    def row(self, prefix: Tokens) -> Sequence[float]:
        """The next token's probabilities after the prompt and ``prefix``, at the case's temperature."""
        row = self.table(self.prompt + prefix)
        if self.temperature == 1.0:
            return row
        powers = [p ** (1 / self.temperature) for p in row]
        total = math.fsum(powers)
        return [p / total for p in powers]


# ---------------------------------------------------------------- models
def randomly(seed: int, spread: float = 1.0, memory: int = 9) -> Table:
    """A random model: a softmax of normal variates for each of the last ``memory`` tokens; ``spread`` is their deviation."""

    @cache
    def row(recent: Tokens) -> tuple[float, ...]:
        rng = random.Random(f"{seed} {recent}")
        scores = [math.exp(rng.gauss(0.0, spread)) for _ in TOKENS]
        total = math.fsum(scores)
        return tuple(s / total for s in scores)

    return lambda prefix: row(prefix[-memory:])


def by_rules(rules: Callable[[Tokens], dict[int, float]], rest: float = 0.0) -> Table:
    """A model written by hand: ``rules`` gives the weights that matter; each other token has ``rest``. Rows are normalised."""

    @cache
    def row(prefix: Tokens) -> tuple[float, ...]:
        given = rules(prefix)
        weights = [given.get(t, rest) for t in range(len(TOKENS))]
        total = math.fsum(weights)
        return tuple(w / total for w in weights)

    return row


def _distorted(prefix: Tokens) -> dict[int, float]:
    if not prefix:
        return {A: 0.3, B: 0.7}
    if len(prefix) == 1:
        good = 0.84 if prefix[0] == A else 0.04
        return {C: good, A: 1 - good}
    return {END: 1.0}


def _luring(prefix: Tokens) -> dict[int, float]:
    return {A: 0.5, B: 0.4, AB: 0.05, C: 0.02, BC: 0.01, END: 0.02} if prefix[-1:] not in ((C,), (BC,)) else {END: 0.7, A: 0.2, C: 0.1}


def _far(prefix: Tokens) -> dict[int, float]:
    if not prefix:
        return {A: 0.9, C: 0.1}
    if len(prefix) < 3:
        return {A: 0.5, B: 0.3, C: 0.1, END: 0.1}
    return {END: 0.9, C: 0.1} if prefix[-1] == C else {C: 0.9 if prefix[0] == C else 0.02, B: 0.5, END: 0.1}


def _holed(prefix: Tokens) -> dict[int, float]:
    if not prefix:
        return {A: 0.2, B: 0.8}
    if prefix[0] == B and prefix[1:] in ((A,), (B,)):
        return {A: 0.95, B: 0.05, C: 0.0, END: 0.0}  # texts go on from here, but only with what the model never says
    return {A: 0.3, B: 0.3, C: 0.2, END: 0.2}


# ---------------------------------------------------------------- languages, told a second time
def _balanced(text: bytes) -> bool:
    depth = 0
    for byte in text:
        depth += 1 if byte == ord("a") else -1 if byte == ord("b") else -99
        if depth < 0:
            return False
    return depth == 0 and bool(text)


def _one_of(options: Sequence[str]) -> dict[str, Any]:
    known = {option.encode() for option in options}
    return {"constraint": Choice(options), "accepts": lambda text: text in known}


def _matching(pattern: str) -> dict[str, Any]:
    compiled = re.compile(pattern.encode())
    return {"constraint": Regex(pattern), "accepts": lambda text: compiled.fullmatch(text) is not None}


def _balanced_texts() -> dict[str, Any]:
    return {"constraint": Gbnf('root ::= "ab" | "a" root "b" | root root'), "accepts": _balanced}


def _count_b(tokens: Tokens, finished: bool) -> float:
    return 0.9 * sum(TOKENS[t].count(b"b") for t in tokens)


def _no_double_b(prefix: Tokens, token: int) -> bool:
    return b"bb" not in b"".join(TOKENS[t] for t in (*prefix, token))


def _late(tokens: Tokens, finished: bool) -> float:
    return (1.0 if tokens[0] == A else -1.0) if finished else 0.0


_OPTIONS = ["a", "b", "ab", "abc", "abab", "cab", "bcc", "bcab"]


@cache
def cases() -> tuple[Case, ...]:
    """The suite: random and adversarial models, against finite sets, regular expressions and a context-free grammar."""
    return (
        Case("distortion", "masking says 30 % where the truth is 90 %", by_rules(_distorted), **_one_of(["ac", "bc"]), max_tokens=4),
        Case("random, set", "a finite set, most texts with several spellings", randomly(38, 1.2), **_one_of(_OPTIONS), max_tokens=6),
        Case("random, regex", "an infinite language, cut by the bound", randomly(14), **_matching("(a|bc)*c?b"), max_tokens=5),
        Case("random, grammar", "balanced brackets: not regular", randomly(27, memory=2), **_balanced_texts(), max_tokens=6),
        Case("dead ends", "the likely way never ends within the bound", by_rules(_luring), **_matching("[ab]*c"), max_tokens=5),
        Case("long range", "the last token hangs on the first", by_rules(_far, 0.01), **_matching("[ac][ab]{2}c"), max_tokens=5),
        Case("holes", "allowed ways on which the model says 0", by_rules(_holed), **_matching("a[abc]|b[ab]c|bc?a?"), max_tokens=4),
        Case("prompt", "a prompt; temperature 0.7", randomly(9), **_matching("a*b?c*"), max_tokens=4, prompt=(C, A), temperature=0.7),
        Case("reward", "a reward that grows token by token", randomly(23), **_matching("[ab]+c?"), max_tokens=4, reward=_count_b),
        Case("late reward", "a reward on the finished text only", randomly(21), **_matching("[ab]c?b?"), max_tokens=4, reward=_late),
        Case("checker", "a checker beside the automaton", randomly(12), **_matching("[abc]+"), max_tokens=4, check=_no_double_b),
        Case("free", "no constraint but the bound", randomly(4, 0.7), None, lambda text: True, max_tokens=3),
    )


def names(**having: Any) -> list[str]:
    """Names of the cases; ``reward=False`` leaves those with a reward out, ``free=False`` those without a constraint."""
    reward, free = having.pop("reward", True), having.pop("free", True)
    if having:
        raise TypeError(f"names() knows reward and free, not {sorted(having)}")
    return [c.name for c in cases() if (reward or c.reward is None) and (free or c.constraint is not None)]


def case(name: str) -> Case:
    """The case of that name.

    Raises:
        ValueError: there is none; lists those there are.
    """
    for found in cases():
        if found.name == name:
            return found
    raise ValueError(f"no case is called {name!r}; there are {', '.join(names())}")


def distortion() -> Case:
    """The known distortion: local masking begins with ``a`` in 30 % of its texts, the model given the language in 90 %."""
    return case("distortion")


def total_variation(p: Mapping[Tokens, float], q: Mapping[Tokens, float]) -> float:
    """Half the sum of absolute differences: 0 for equal laws, 1 for laws without a common text."""
    return math.fsum(abs(p.get(s, 0.0) - q.get(s, 0.0)) for s in p.keys() | q.keys()) / 2
