"""What sampling costs on a real model: fewer checks than a mask, particles that share, and the same work done by genlm-control.

Three comparisons, each of things done one after the other in one run:

- :func:`checker_costs`: a constraint that only a slow function can tell, under full masks and under adaptive weighted rejection;
- :func:`particle_costs`: particles in one call against as many generations, each by itself;
- :func:`peer_costs`: error and time against genlm-control (where it is installed), on a language small enough to be summed up exactly.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, Any

import regex

from grammars import Choice, Regex

from .laws import CONTENDERS, available, measured
from .toys import Law, total_variation

if TYPE_CHECKING:
    from guided.model import Model
    from samplers.target import Samples, Target

__all__ = ["Checker", "Work", "checker_costs", "costs", "exact_law", "particle_costs", "peer_costs", "watched"]

SENTENCE = "[A-Z][a-z]+(,? [a-z]+)*[.]"
STORY = (
    "The harbour lay quiet in the early light. Two boats had come in during the night, and their crews were asleep on deck. "
    "On the quay an old man mended his nets, as he had done every morning for forty years, and a grey cat watched him from a "
    "barrel. Nobody spoke. Then the bell of the chapel rang, once, and the cat turned its head toward the narrow street that "
    "leads up to the market, where the first of the traders were already setting out their baskets. One of them called out:"
)
QUESTION = "Is the sea warm in winter? Answer yes or no."
ANSWERS = ("Yes", "No", "Yes.", "No.", "Yes!", "Maybe")


class Checker:
    """A constraint as a user may write it: decodes the text so far and asks a regular expression whether it can go on.

    Args:
        pattern: what the whole text must match; the module :mod:`regex` says whether a beginning may.
        vocabulary: what tokens mean.

    Attributes:
        calls: how often it was asked.
    """

    def __init__(self, pattern: str, vocabulary: Any) -> None:
        self._pattern, self._vocabulary, self.calls = regex.compile(pattern), vocabulary, 0

    def __call__(self, prefix: tuple[int, ...], token: int) -> bool:
        self.calls += 1
        vocabulary = self._vocabulary
        end = token in vocabulary.eos_token_ids
        if not end and not vocabulary.is_text(token):
            return False
        data = b"".join(vocabulary.tokens[t] for t in (prefix if end else (*prefix, token)))
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return False  # the pattern's texts are ASCII
        return self._pattern.fullmatch(text, partial=not end) is not None


@dataclass
class Work:
    """What a Hugging Face model was made to do.

    Attributes:
        calls: forwards. rows: sequences in them. tokens: positions evaluated, padding included.
        seconds: wall time of the whole.
    """

    calls: int = 0
    rows: int = 0
    tokens: int = 0
    seconds: float = 0.0


@contextmanager
def watched(model: Any) -> Iterator[Work]:
    """Counts the forwards of a Hugging Face model, and takes the time."""
    work = Work()

    def note(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
        work.calls, work.rows, work.tokens = work.calls + 1, work.rows + len(ids), work.tokens + ids.numel()

    handle = model.register_forward_pre_hook(note, with_kwargs=True)
    begun = time.perf_counter()
    try:
        yield work
    finally:
        work.seconds = time.perf_counter() - begun
        handle.remove()


def _target(model: Model, prompt: str | Sequence[int], **options: Any) -> Target:
    """A target whose model has nothing cached; ``prompt`` is a text, or token ids."""
    from samplers.models import HFModel
    from samplers.target import Target

    language = HFModel(model.model, eos_token_ids=model.vocabulary.eos_token_ids)
    ids = model.tokenizer(prompt)["input_ids"] if isinstance(prompt, str) else prompt
    return Target(language, tuple(ids), **options)


def _question(model: Model, text: str) -> list[int]:
    """Token ids of a question in the model's chat template, where it has one."""
    from guided.inputs import target_of
    from guided.prompts import prompt_ids

    return prompt_ids(model, text, target_of(None), chat=True, instruct=False)


# ---------------------------------------------------------------- an expensive checker
def checker_costs(model: Model, *, particles: int = 4, max_tokens: int = 24, seed: int = 7) -> list[dict[str, Any]]:
    """A slow checker under full masks (importance sampling) and under adaptive weighted rejection: checks, and time."""
    from samplers.awrs import awrs
    from samplers.importance import importance

    prompt = _question(model, "Is the sea warm in winter? Answer in one short sentence.")
    found: list[dict[str, Any]] = []
    for name, sampler in (("full masks", importance), ("AWRS", awrs)):
        checker = Checker(SENTENCE, model.vocabulary)
        target = _target(model, prompt, max_tokens=max_tokens, check=checker)
        with watched(model.model) as work:
            samples = sampler(target, particles, seed=seed)
        steps = sum(len(s.tokens) for s in samples.samples)
        share = checker.calls / (steps * target.model.width)
        row: dict[str, Any] = {"method": name, "particles": particles, "seconds": work.seconds, "checks": checker.calls, "steps": steps}
        row |= {"checks per step": checker.calls / steps, "share of the vocabulary": share}
        found.append(row | {"log Z": samples.log_z, "± log Z": samples.log_z_error})
    for row in found:
        row["time ratio"] = row["seconds"] / found[0]["seconds"]
    return found


# ---------------------------------------------------------------- particles
def particle_costs(model: Model, *, particles: int = 8, max_tokens: int = 16, seed: int = 7) -> list[dict[str, Any]]:
    """Particles in one call, against generations one by one, in every respect the same: prompt, constraint and tokens at most."""
    import guided
    from samplers.importance import importance
    from samplers.smc import smc

    constraint = Regex("( [A-Za-z]+[,.!?]?)+")
    automaton = constraint.compile(model.vocabulary)

    def together(sampler: Callable[..., Samples]) -> int:
        samples = sampler(_target(model, STORY, automaton=automaton, max_tokens=max_tokens), particles, seed=seed)
        return sum(len(s.tokens) for s in samples.samples)

    def alone() -> int:
        return sum(together_one(i) for i in range(particles))

    def together_one(row: int) -> int:
        samples = importance(_target(model, STORY, automaton=automaton, max_tokens=max_tokens), 1, seed=seed + row)
        return len(samples.samples[0].tokens)

    def generations() -> int:
        texts = (guided.generate(model, STORY, constraint, max_tokens=max_tokens, temperature=1.0, seed=seed + i) for i in range(particles))
        return sum(len(text.tokens) for text in texts)

    rows: list[tuple[str, Callable[[], int]]] = [
        (f"{particles} calls of guided.generate", generations),
        (f"{particles} calls with one particle, nothing shared", alone),
        ("one call, importance sampling", lambda: together(importance)),
        ("one call, SMC", lambda: together(smc)),
    ]
    found: list[dict[str, Any]] = []
    first = 0.0
    for name, function in rows:
        with watched(model.model) as work:
            written = function()
        pace = work.seconds / written
        first = first or pace
        row: dict[str, Any] = {"what": name, "seconds": work.seconds, "calls": work.calls, "positions": work.tokens, "tokens": written}
        found.append(row | {"time per token, to the first": pace / first})
    return found


# ---------------------------------------------------------------- peers
def exact_law(target: Target, options: Sequence[str], vocabulary: Any) -> tuple[Law, float]:
    """The target of a finite language, by scoring every spelling of every option: the law and log Z. All ends count as the smallest one."""
    end = min(target.ends)
    by_bytes: dict[bytes, list[int]] = {}
    for token in range(vocabulary.size):
        if vocabulary.is_text(token):
            by_bytes.setdefault(vocabulary.tokens[token], []).append(token)

    def spellings(data: bytes) -> list[tuple[int, ...]]:
        if not data:
            return [()]
        heads = [(token, k) for k in range(1, len(data) + 1) for token in by_bytes.get(data[:k], ())]
        return [(token, *rest) for token, k in heads for rest in spellings(data[k:])]

    texts = [s for option in options for s in spellings(option.encode()) if len(s) < target.max_tokens]
    scored = target.model.score(target.root, [(*s, e) for s in texts for e in sorted(target.ends)])
    logs = iter(float(row.sum()) for row in scored)
    masses = {(*s, end): math.fsum(math.exp(next(logs)) for _ in target.ends) for s in texts}
    z = math.fsum(masses.values())
    return {s: m / z for s, m in masses.items()}, math.log(z)


@dataclass
class _Tally:
    name: str
    works: list[Work] = field(default_factory=list)
    distances: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)

    def add(self, samples: Samples, work: Work, law: Law, log_z: float, ends: frozenset[int]) -> None:
        self.works.append(work)
        merged: Law = {}
        for s, p in measured(samples).items():
            key = (*s[:-1], min(ends)) if s[-1] in ends else s
            merged[key] = merged.get(key, 0.0) + p
        self.distances.append(total_variation(merged, law) if merged else 1.0)
        self.squares.append((samples.log_z - log_z) ** 2)

    def row(self, particles: int) -> dict[str, Any]:
        calls = fmean(w.calls for w in self.works)
        seconds = median(w.seconds for w in self.works)
        return {
            "method": self.name,
            "particles": particles,
            "total variation": fmean(self.distances),
            "±": stdev(self.distances) / math.sqrt(len(self.distances)) if len(self.distances) > 1 else math.nan,
            "log Z error": math.sqrt(fmean(self.squares)),
            "seconds": seconds,
            "calls": calls,
            "positions": fmean(w.tokens for w in self.works),
            "ms per call": 1e3 * seconds / calls,
        }


def peer_costs(model: Model, *, particles: int = 8, runs: int = 20, seed: int = 7, peers: bool = True) -> list[dict[str, Any]]:
    """AWRS, SMC and both together, here and in genlm-control over its own Hugging Face backend: same model, constraint and particles.

    The language is a few answers to a question; the error is measured against :func:`exact_law`. Every run begins with empty caches.
    """
    from samplers.awrs import awrs
    from samplers.smc import smc

    answers = Choice(ANSWERS)
    automaton = answers.compile(model.vocabulary)
    prompt = _question(model, QUESTION)

    def target() -> Target:
        return _target(model, prompt, automaton=automaton, max_tokens=8)

    law, log_z = exact_law(target(), ANSWERS, model.vocabulary)
    ours: list[tuple[str, Callable[[int], Samples]]] = [
        ("AWRS", lambda s: awrs(target(), particles, seed=s)),
        ("SMC", lambda s: smc(target(), particles, seed=s)),
        ("AWRS-SMC", lambda s: smc(target(), particles, seed=s, proposal="awrs")),
    ]
    tallies = [(_Tally(name), function) for name, function in ours] + (_peers(model, target(), particles) if peers else [])
    for run in range(-1, runs):  # the first one warms up
        for tally, function in tallies:
            with watched(model.model) as work:
                samples = function(seed + run)
            if run >= 0:
                tally.add(samples, work, law, log_z, frozenset(model.vocabulary.eos_token_ids))
    return [tally.row(particles) for tally, _ in tallies]


def _peers(model: Model, target: Target, particles: int) -> list[tuple[_Tally, Callable[[int], Samples]]]:
    """genlm-control's three; none where it is not installed."""
    if not all(available(c) for c in CONTENDERS if c.peer):
        return []
    from genlm.control import AWRS
    from genlm.control.sampler.token import DirectTokenSampler

    from . import genlm

    theirs = genlm.own_model(model.model, model.tokenizer, target, particles)

    def fresh(sampler: Callable[[Any, int], Any], threshold: float, name: str) -> Callable[[int], Samples]:
        def draw(seed: int) -> Samples:
            theirs.model.clear_cache()
            theirs.model.cache_kv(list(target.prompt))
            return genlm.run(target, sampler(genlm.Language(target, theirs.vocab), seed), particles, seed, threshold, name)

        return draw

    def rejecting(language: Any, seed: int) -> Any:
        return AWRS(theirs, language, seed=seed)

    def masking(language: Any, seed: int) -> Any:
        return DirectTokenSampler(theirs * language)

    rows = [("genlm-control AWRS", rejecting, 0.0), ("genlm-control SMC", masking, 0.5), ("genlm-control AWRS-SMC", rejecting, 0.5)]
    return [(_Tally(name), fresh(sampler, threshold, name)) for name, sampler, threshold in rows]


def costs(model: Model, *, seed: int = 7, peers: bool = True) -> dict[str, list[dict[str, Any]]]:
    """All three comparisons: title -> rows. ``peers``: genlm-control too, where it is installed."""
    found = {
        "an expensive checker: full masks and adaptive weighted rejection": checker_costs(model, seed=seed),
        "particles in one call, and generations one by one": particle_costs(model, seed=seed),
        "a small language on a model: error and time": peer_costs(model, seed=seed, peers=peers),
    }
    return {title: [{k: _finite(v) for k, v in row.items()} for row in rows] for title, rows in found.items()}


def _finite(value: Any) -> Any:
    """JSON has no infinities: ``None`` instead."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
