"""Fair samples: :func:`sample` draws texts from the *model given the constraint* (and a reward), and says how well it did.

Masking token by token, which :func:`guided.generate` does, is fast and always valid, but its texts follow another law than the model's own
valid texts: it cannot see where a prefix leads. The methods here correct that, each in its own way::

    result = guided.sample(model, "Three primes: ", guided.Regex(r"\\d+, \\d+, \\d+"), method="awrs-smc", particles=32, seed=0)
    print(result)                  # texts with weights, log Z with its error, effective sample size, divergence from the target
    text = result.draw()[0].text   # one text
"""

from __future__ import annotations

import inspect
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grammars import Automaton, ConstraintError, DeadEnd, ModelError, Vocabulary

from .inputs import Target as Wanted
from .inputs import target_of
from .sampled import Sampled, WeightedText

if TYPE_CHECKING:
    from samplers.models import LanguageModel
    from samplers.target import Samples, Target

    from .model import Model
    from .prompts import Prompt

__all__ = ["METHODS", "Judge", "sample"]

Judge = Callable[..., Any]
_REMEMBERED = 100_000  # answers of a checker

# what an option must be, by the annotation of the sampler's parameter; options of other types are checked by the samplers themselves
_KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "int": ("a whole number", lambda value: isinstance(value, Integral) and not isinstance(value, bool)),
    "float": ("a number", lambda value: isinstance(value, Real) and not isinstance(value, bool)),
    "Potential | None": ("a samplers.smc.Potential", lambda value: hasattr(value, "log_values")),
    "Tilt | None": ("a samplers.daemon.Tilt", lambda value: hasattr(value, "log_value")),
}


@dataclass(frozen=True, slots=True)
class _Method:
    """How a method is called.

    Attributes:
        module, function: where the sampler is.
        fixed: arguments that the method's name stands for.
        about: what it is good for, in a few words.
    """

    module: str
    function: str
    about: str
    fixed: dict[str, Any]

    def sampler(self) -> Callable[..., Samples]:
        return getattr(import_module(self.module), self.function)

    def options(self) -> dict[str, str]:
        """Names of the arguments that a caller may give, and their types as the sampler writes them."""
        hidden = {"target", "n", "seed", "vocabulary", *self.fixed}
        parameters = inspect.signature(self.sampler()).parameters.items()
        return {name: str(parameter.annotation) for name, parameter in parameters if name not in hidden}


METHODS: dict[str, _Method] = {
    "masking": _Method("samplers.importance", "importance", "token masks, uncorrected: fast, valid, distorted", {}),
    "importance": _Method("samplers.importance", "importance", "token masks, corrected by weights", {}),
    "rejection": _Method("samplers.rejection", "rejection", "exact; for languages that the model mostly keeps to", {}),
    "cars": _Method("samplers.cars", "cars", "exact; rejection that never repeats a failure", {}),
    "asap": _Method("samplers.asap", "asap", "masks that learn where the model cannot go on", {}),
    "awrs": _Method("samplers.awrs", "awrs", "checks a few tokens a step instead of all; weights", {}),
    "smc": _Method("samplers.smc", "smc", "particles by token masks, resampled; rewards guide them", {"proposal": "masked"}),
    "awrs-smc": _Method("samplers.smc", "smc", "particles by AWRS, resampled; for slow checkers and rewards", {"proposal": "awrs"}),
    "mcmc": _Method("samplers.mcmc", "mcmc", "chains that rewrite the ends of texts", {}),
    "daemon": _Method("samplers.daemon", "daemon", "each text chosen by weight from candidates of its own", {}),
    "arithmetic": _Method("samplers.without_replacement", "arithmetic_sampling", "masks; texts that are spread evenly", {}),
    "stochastic-beam": _Method("samplers.without_replacement", "stochastic_beam_search", "different texts, by Gumbel-top-k", {}),
    "poisson-beam": _Method("samplers.without_replacement", "conditional_poisson_beams", "different texts, by conditional Poisson", {}),
}
"""The methods of :func:`sample` by name."""


def sample(
    model: Model | LanguageModel | str | Path | tuple[Any, Any] | None,
    prompt: Prompt | Sequence[int],
    constraint: Any = None,
    *,
    method: str = "awrs",
    particles: int = 16,
    reward: Judge | None = None,
    check: Judge | None = None,
    max_tokens: int = 256,
    temperature: float = 1.0,
    seed: int | None = None,
    chat: bool = True,
    instruct: bool = True,
    **options: Any,
) -> Sampled:
    """Weighted texts that follow the model's own distribution over what the constraint allows, times ``exp(reward)``.

    The target is ``p(x) exp(reward(x)) / Z`` over the texts ``x`` of the language that have at most ``max_tokens`` tokens; a text is a
    sequence of tokens, so one string may come in several spellings.

    ============  =============================================================================  ========================================
    method        what it does                                                                   weights
    ============  =============================================================================  ========================================
    masking       token masks and nothing else: the law is *not* the target                      equal; ``log_weight`` says what they hide
    importance    token masks; each text weighed by the mass that was masked                     absolute: their mean estimates ``Z``
    rejection     texts of the model, kept if they fit (a reward needs ``reward_bound``)         equal, exact
    cars          rejection that remembers every failure (a reward needs ``reward_bound``)       equal, exact
    asap          masks that learn from failures (a reward needs ``reward_bound``)               absolute
    awrs          adaptive weighted rejection: looks at few tokens a step                        absolute
    smc           particles by masks, resampled on the way: rewards of prefixes guide them       absolute
    awrs-smc      particles by AWRS, resampled on the way                                        absolute
    mcmc          Metropolis-Hastings chains of ``steps`` rewritings                             equal, in the limit of steps
    daemon        each text chosen by weight from ``candidates``                                 absolute, nearly equal
    arithmetic    token masks; code points that are spread evenly instead of independent texts   absolute
    ============  =============================================================================  ========================================

    ``stochastic-beam`` and ``poisson-beam`` draw *different* texts, without replacement; their weights are absolute.

    Args:
        model: what :func:`guided.load` returns, or takes (then it is loaded on each call). Or any
            :class:`samplers.models.LanguageModel`; then ``prompt`` is token ids and ``constraint`` a compiled automaton.
        prompt: a text, or messages; see :func:`guided.generate`.
        constraint: a constraint, a schema, a type, ...: see :mod:`guided.inputs`. ``None`` is free text.
        method: see the table.
        particles: how many texts.
        reward: natural logarithm of what a text is worth. ``reward(text)`` judges whole texts; ``reward(text, finished)`` is asked about
            unfinished ones too, which guides ``smc`` and ``awrs-smc`` but does not change the target. ``-inf`` forbids.
        check: a constraint of your own: ``check(text)``, or ``check(text, finished)``, is false for what nothing good can come of. Must
            be true for every beginning of a text for which it is true. ``awrs`` asks it about few tokens.
        max_tokens: tokens of the longest text, its end token included. Where the model's context has less room, that is the number.
        temperature: the model's distribution over tokens is taken at it; above 0.
        seed: of the randomness; ``None`` draws one (it is in the result).
        chat, instruct: see :func:`guided.generate`.
        options: of the method, see :mod:`samplers.smc.loop` and the other modules of :mod:`samplers`: ``resampling``, ``ess_threshold``,
            ``block`` (``"token"``, ``"word"``, ``"line"``, ``"step"``, a number), ``lookahead``, ``moves`` ... of ``smc``; ``steps`` of
            ``mcmc``; ``candidates`` of ``daemon``; ``max_trials``, ``reward_bound`` of ``rejection`` and ``cars``.

    Returns:
        the texts, with the estimate of ``log Z`` and its standard error, the effective sample size of each step, the number of forwards,
        and the estimated divergence from the target.

    Raises:
        ConstraintError: the constraint is malformed or unsupported, or no text of the language fits into ``max_tokens``.
        DeadEnd: no particle came to an end: allow more tokens or particles, or take another method.
        ModelError: the model cannot be loaded, or does not take this prompt.
        ValueError: an unknown method or option, a parameter out of range, or a reward that is not a number.
    """
    began = time.perf_counter()
    chosen = _method(method, options)
    for name, value in (("particles", particles), ("max_tokens", max_tokens)):
        _check_kind(name, value, "int")
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
    _check_kind("temperature", temperature, "float")
    wanted = target_of(constraint)
    target, vocabulary = _target(model, prompt, constraint, wanted, max_tokens, temperature, chat=chat, instruct=instruct)
    judges = _Judges(vocabulary)
    target = replace(target, reward=judges.reward(reward), check=judges.check(check))
    seed = secrets.randbits(63) if seed is None else seed
    extra = {"vocabulary": vocabulary} if chosen.function == "smc" else {}
    found = chosen.sampler()(target, particles, seed=seed, **chosen.fixed, **options, **extra)
    shares = _shares(method, found)
    texts = [
        WeightedText(_text(vocabulary, s.tokens), share, s.log_weight, s.log_prob, list(s.tokens), s.finished, wanted.parse)
        for s, share in zip(found.samples, shares)
    ]
    kl = found.details.get("kl_masking") if method == "masking" else found.kl
    spent = time.perf_counter() - began
    return Sampled(
        texts=texts,
        method=method,
        log_z=found.log_z,
        log_z_error=found.log_z_error,
        ess=found.ess,
        forwards=found.forwards,
        kl=kl,
        prompt_tokens=len(target.prompt),
        seed=seed,
        seconds=spent,
        samples=found,
        listed="local masking" if method == "masking" else found.method,
    )


def _method(name: str, options: dict[str, Any]) -> _Method:
    if name not in METHODS:
        raise ValueError(f"there is no method {name!r} of sampling; there are {', '.join(METHODS)}")
    known = METHODS[name].options()
    for option, value in options.items():
        if option not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ValueError(f"the method {name!r} has no option {option!r}; {takes}")
        _check_kind(option, value, known[option])
    return METHODS[name]


def _check_kind(name: str, value: Any, annotation: str) -> None:
    """Refuses a value that is not of the type of its parameter."""
    kind = _KINDS.get(annotation) or _KINDS.get(annotation.removesuffix(" | None"))
    if kind is not None and not kind[1](value) and not (value is None and annotation.endswith("None")):
        raise ValueError(f"{name} must be {kind[0]}, not {value!r}")


def _shares(method: str, found: Samples) -> list[float]:
    """Normalised weights; for plain masking the same one for every finished text."""
    try:
        weights: list[float] = found.weights.tolist()
    except DeadEnd:
        trials = "max_trials" in METHODS[method].options()
        more = "more trials (max_trials), tokens (max_tokens)" if trials else "more tokens (max_tokens)"
        raise DeadEnd(
            f"{method}: none of the {len(found.samples)} particles became a text of the language; allow {more} or particles, or take a "
            "method that looks at the constraint while it writes (smc, awrs-smc)"
        ) from None
    if method != "masking":
        return weights
    finished = sum(s.finished for s in found.samples)
    return [1 / finished if s.finished else 0.0 for s in found.samples]


# ---------------------------------------------------------------- the target
def _target(
    model: Any, prompt: Any, constraint: Any, wanted: Wanted, max_tokens: int, temperature: float, *, chat: bool, instruct: bool
) -> tuple[Target, Vocabulary | None]:
    from samplers.models import LanguageModel
    from samplers.target import Target

    from .model import Model, load
    from .prompts import is_single, prompt_ids

    if not isinstance(model, Model) and isinstance(model, LanguageModel):
        if not (wanted.constraint is None or isinstance(wanted.constraint, Automaton)):
            raise ConstraintError("with a bare LanguageModel the constraint must be compiled: constraint.compile(vocabulary)")
        if isinstance(prompt, str) or not all(isinstance(token, int) for token in prompt):
            raise ValueError("with a bare LanguageModel the prompt is a sequence of token ids")
        vocabulary = None if wanted.constraint is None else wanted.constraint.vocabulary
        return Target(model, tuple(prompt), wanted.constraint, max_tokens, temperature), vocabulary
    loaded = model if isinstance(model, Model) else load(model)
    if not is_single(prompt):
        raise ValueError("sample takes one prompt (a text or a list of messages)")
    compiled = loaded.compile(constraint, wanted)
    ids = prompt_ids(loaded, prompt, wanted, chat=chat, instruct=instruct)
    room = max_tokens if loaded.context is None else min(max_tokens, loaded.context - len(ids))
    if room < 1:
        raise ModelError(f"the prompt has {len(ids)} tokens and {loaded.name} takes {loaded.context}, answer included: shorten the prompt")
    if compiled.budget is not None and (need := compiled.budget.need(compiled.budget.automaton.start)) > room:
        raise ConstraintError(
            f"the shortest text that fits the constraint needs {need} tokens (its end token included) and there is room for {room}: "
            f"allow at least {need} (max_tokens, or a shorter prompt)"
        )
    return Target(loaded.language_model, tuple(ids), compiled.automaton, room, temperature), loaded.vocabulary


def _text(vocabulary: Vocabulary | None, tokens: Sequence[int], errors: str = "replace") -> str:
    """The text of tokens; their numbers where nothing says what they mean."""
    return " ".join(map(str, tokens)) if vocabulary is None else vocabulary.decode(tokens).decode("utf-8", errors)


class _Judges:
    """Functions of texts as functions of tokens."""

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        self.vocabulary = vocabulary

    def _written(self, tokens: tuple[int, ...]) -> str:
        return _text(self.vocabulary, tokens, "ignore")  # a character under way is no text yet

    def reward(self, judge: Judge | None) -> Callable[[tuple[int, ...], bool], float] | None:
        if judge is None:
            return None
        if _takes_finished(judge, "reward"):
            return lambda tokens, finished: float(judge(self._written(tokens), finished))
        return lambda tokens, finished: float(judge(self._written(tokens))) if finished else 0.0

    def check(self, judge: Judge | None) -> Callable[[tuple[int, ...], int], bool] | None:
        if judge is None:
            return None
        told = _takes_finished(judge, "check")
        ends = frozenset(() if self.vocabulary is None else self.vocabulary.eos_token_ids)

        @lru_cache(_REMEMBERED)  # one text has many spellings, and ends where its last token was asked about
        def answer(text: str, finished: bool) -> bool:
            return bool(judge(text, finished) if told else judge(text))

        return lambda prefix, token: answer(self._written((*prefix, token)), told and token in ends)


def _takes_finished(judge: Judge, name: str) -> bool:
    """Whether a judge wants to be told if the text is finished: it has a parameter of that name, or needs a second argument."""
    try:
        signature = inspect.signature(judge)
    except (TypeError, ValueError):  # some built-in functions have none
        return False
    arguments: tuple[Any, ...]
    for arguments in (("",), ("", True)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return len(arguments) == 2 or "finished" in list(signature.parameters)[1:2]
    raise ValueError(f"{name} must be a function of a text, or of a text and whether it is finished, not of {signature}")
