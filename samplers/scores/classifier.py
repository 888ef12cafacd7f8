"""A sequence classifier (or reward model) of transformers as a score.

A *unidirectional* classifier reads a text from left to right and judges at its last token, so all that it knows of a prefix stays good when
tokens are added. Its states are kept in the same cache of prefixes as a language model's (:mod:`samplers.models.hf`): to score ``k`` next
tokens of a prefix takes one forward over ``k`` tokens, as in RAD (Deng and Raffel 2023, arXiv:2310.09520). A bidirectional one reads every
text again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Literal, get_args

import torch

from grammars.errors import ModelError

from ..models.context import Context
from ..models.hf import HFModel
from .protocol import Candidate, ValueBase
from .texts import decoder, generated

__all__ = ["Classifier"]

Read = Literal["logit", "log_prob", "log_odds"]
_PROBE = ((1, 2, 3, 4), (3, 1, 2))
_CLOSE = {torch.float32: 1e-3, torch.float64: 1e-3}  # relative; of two ways to compute the same, others (16 bits) 0.05


class Classifier(ValueBase):
    """What a classifier says of each candidate.

    Args:
        model: a sequence classification model of transformers; put into evaluation mode.
        tokenizer: the classifier's tokenizer: texts are decoded with ``texts`` and encoded again. ``None``: the classifier reads the token
            ids of the candidates as they are, because it was trained from the same family as the language model.
        texts: what reads the candidates' tokens (a vocabulary, tokenizer or function); needed with a ``tokenizer``.
        label: index or name of the class whose score is wanted.
        read: ``"logit"``, ``"log_prob"`` (natural logarithm of the class's probability) or ``"log_odds"`` (of the class against all
            others); ``None``: the logit of a model with one label, else ``"log_prob"``.
        with_prompt: whether it reads the prompt too.
        template: with a tokenizer, ``template(prompt, text)`` is what it reads (``with_prompt`` has no part in it then).
        first: token ids that stand before those of the candidate, where ids are shared (a BOS token, where the prompt has none).
        keep_end: whether it reads the token that ended a text, where ids are shared.
        batch: the most texts in one forward of a bidirectional model.
        share: whether the states of prefixes are kept; ``None``: wherever that gives the same answers (checked on the first use).

    Attributes:
        shares_prefixes: whether only new tokens are evaluated.

    Texts longer than a tokenizer's limit lose their beginning or end, as the tokenizer is set.

    Raises:
        ModelError: the model is no sequence classifier, an unknown label, ``texts`` is missing, or ``share=True`` cannot be had.
        ValueError: ``batch`` below 1, or ``read`` is unknown.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        texts: Any = None,
        label: int | str = 0,
        read: Read | None = None,
        with_prompt: bool = True,
        template: Callable[[str, str], str] | None = None,
        first: Sequence[int] = (),
        keep_end: bool = False,
        batch: int = 32,
        share: bool | None = None,
    ) -> None:
        labels = int(getattr(model.config, "num_labels", 0))
        if labels < 1 or not type(model).__name__.endswith("ForSequenceClassification"):
            raise ModelError(f"{type(model).__name__} is no sequence classification model")
        if tokenizer is not None and texts is None:
            raise ModelError("a classifier with its own tokenizer needs `texts` (a vocabulary or tokenizer) to read the candidates with")
        if batch < 1:
            raise ValueError(f"batch must be at least 1, not {batch}")
        if read is not None and read not in get_args(Read):
            raise ValueError(f"a classifier is read as one of {get_args(Read)}, not {read!r}")
        self.model, self.tokenizer, self.batch = model.eval(), tokenizer, batch
        self.label, self.read = _label(model, label, labels), read or ("logit" if labels == 1 else "log_prob")
        self.with_prompt, self.template, self.keep_end = with_prompt, template, keep_end
        self._first = Context(first)
        self._decode = None if texts is None else decoder(texts)
        self._reader = None if share is False else _reader(model)
        self.shares_prefixes = self._reader is not None and self._reader.shares_prefixes
        if share and not self.shares_prefixes:
            raise ModelError(f"{type(model).__name__} cannot keep the states of prefixes: it is not read from left to right only")

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        """See :meth:`Value.values`.

        Raises:
            ModelError: a candidate without a token, or too long a one.
        """
        return self._scores(self.logits(candidates)).tolist() if candidates else []

    def logits(self, candidates: Sequence[Candidate]) -> torch.Tensor:
        """The classifier's own answers: ``float64[len(candidates), labels]`` on the CPU."""
        if self.tokenizer is None:
            contexts = [self._context(candidate) for candidate in candidates]
        else:
            texts = [self._text(candidate) for candidate in candidates]
            if self._reader is None:
                return self._padded(texts)
            contexts = [Context(ids) for ids in self.tokenizer(texts, truncation=True)["input_ids"]]
        if self._reader is not None:
            return self._reader.next_logits(contexts).to("cpu", torch.float64)
        return self._whole([context.tokens for context in contexts])

    def _scores(self, logits: torch.Tensor) -> torch.Tensor:
        if self.read == "logit":
            return logits[:, self.label]
        if self.read == "log_prob":
            return logits.log_softmax(-1)[:, self.label] if logits.shape[-1] > 1 else torch.nn.functional.logsigmoid(logits[:, 0])
        others = [i for i in range(logits.shape[-1]) if i != self.label]
        return logits[:, self.label] - (logits[:, others].logsumexp(-1) if others else 0.0)

    # ------------------------------------------------------------ what it reads
    def _context(self, candidate: Candidate) -> Context:
        whole = self.keep_end or not candidate.finished
        if self.with_prompt and not self._first.length:
            return candidate.context if whole else Context(candidate.context.tokens[:-1])
        prompt = candidate.prompt if self.with_prompt else ()
        return self._first.extend((*prompt, *generated(candidate, whole)))

    def _text(self, candidate: Candidate) -> str:
        assert self._decode is not None
        text = self._decode(generated(candidate))
        if self.template is None and not self.with_prompt:
            return text
        prompt = self._decode(candidate.prompt)
        return prompt + text if self.template is None else self.template(prompt, text)

    # ------------------------------------------------------------ as a whole
    @torch.inference_mode()
    def _whole(self, sequences: Sequence[tuple[int, ...]]) -> torch.Tensor:
        """Token ids as they are, in batches of equal length: needs no padding token."""
        found: dict[int, torch.Tensor] = {}
        groups: dict[int, list[int]] = {}
        for place, sequence in enumerate(sequences):
            if not sequence:
                raise ModelError("a classifier needs at least one token to read; give it `first`, a BOS token, say")
            groups.setdefault(len(sequence), []).append(place)
        for group in groups.values():
            size = self.batch if getattr(self.model.config, "pad_token_id", None) is not None else 1
            for begin in range(0, len(group), size):
                part = group[begin : begin + size]
                ids = torch.tensor([sequences[place] for place in part], device=self.model.device)
                rows = self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
                found.update(zip(part, rows.to("cpu", torch.float64)))
        return torch.stack([found[place] for place in range(len(sequences))])

    @torch.inference_mode()
    def _padded(self, texts: Sequence[str]) -> torch.Tensor:
        """Texts, encoded by the classifier's tokenizer; those of like length together."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found: dict[int, torch.Tensor] = {}
        size = self.batch if getattr(self.tokenizer, "pad_token_id", None) is not None else 1
        for begin in range(0, len(order), size):
            part = order[begin : begin + size]
            entry = self.tokenizer([texts[i] for i in part], padding=len(part) > 1, truncation=True, return_tensors="pt")
            rows = self.model(**entry.to(self.model.device)).logits
            found.update(zip(part, rows.to("cpu", torch.float64)))
        return torch.stack([found[place] for place in range(len(texts))])


def _label(model: Any, label: int | str, labels: int) -> int:
    names = dict(getattr(model.config, "label2id", None) or {})
    index = names.get(label, -1) if isinstance(label, str) else label
    if not 0 <= int(index) < labels:
        known = ", ".join(map(str, names)) or f"0 to {labels - 1}"
        raise ModelError(f"the classifier has no label {label!r}; it has {known}")
    return int(index)


class _LeftToRight:
    """A unidirectional classifier in the shape of a causal language model: its "next-token logits" are the classes'.

    So :class:`HFModel`, which evaluates every token of every prefix once, serves classifiers as it is.
    """

    _supports_attention_backend: bool

    def __init__(self, model: Any, body: Any, head: torch.nn.Module) -> None:
        self._classifier, self._body, self._head = model, body, head
        self.config, self.device, self.dtype = model.config, model.device, model.dtype
        self._supports_attention_backend = bool(getattr(body, "_supports_attention_backend", False))
        known = inspect.signature(body.forward).parameters
        self._cache_name = "cache" if "cache" in known else "past_key_values"  # renamed in transformers 5

    def eval(self) -> _LeftToRight:
        return self

    def get_input_embeddings(self) -> Any:
        return self._body.get_input_embeddings()

    def get_output_embeddings(self) -> Any:
        return self._head

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: Any = None,
        position_ids: torch.Tensor | None = None,
        cache: Any = None,
        past_key_values: Any = None,
        use_cache: bool = False,
        output_hidden_states: bool = False,
        logits_to_keep: int | torch.Tensor = 0,
    ) -> SimpleNamespace:
        """The classes' logits at every token (at the last ``logits_to_keep``, or at those it lists)."""
        out = self._body(
            input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            use_cache=use_cache,
            **{self._cache_name: cache if cache is not None else past_key_values},
        )
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        states = out.last_hidden_state[:, kept] if not isinstance(kept, slice) or logits_to_keep else out.last_hidden_state
        return SimpleNamespace(logits=self._head(states), hidden_states=(states,))

    __call__ = forward


def _reader(model: Any) -> HFModel | None:
    """The model with a cache of prefixes; ``None`` where it does not answer as the model itself does."""
    body, head = getattr(model, model.base_model_prefix, None), getattr(model, "score", None)
    if body is None or not isinstance(head, torch.nn.Linear) or getattr(model.config, "is_encoder_decoder", False):
        return None
    try:
        reader = HFModel(_LeftToRight(model, body, head), eos_token_ids=())
        return reader if reader.shares_prefixes and _agrees(model, reader) else None
    except (ModelError, TypeError, ValueError, AttributeError, NotImplementedError):
        return None  # an architecture whose parts are put together in another way: it is read as a whole


@torch.inference_mode()
def _agrees(model: Any, reader: HFModel) -> bool:
    """Whether a body and a linear head, evaluated token after token, are all that the model is."""
    padding = getattr(model.config, "pad_token_id", None)
    ids = [token for token in range(1, model.get_input_embeddings().num_embeddings) if token != padding][:4]
    for text in _PROBE:
        sequence = [ids[place % len(ids)] for place in text]
        expected = model(input_ids=torch.tensor([sequence], device=model.device)).logits[0].double()
        reader.next_logits([Context(sequence[:-1])])
        found = reader.next_logits([Context(sequence)])[0].double()
        tolerance = _CLOSE.get(model.dtype, 0.05)
        if found.shape != expected.shape or not torch.allclose(found, expected, rtol=tolerance, atol=tolerance):
            return False
    reader.clear()
    return True
