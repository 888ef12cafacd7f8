"""Speculation in the place of transformers' own decoding: ``model.generate(..., custom_generate=guided.Speculation("auto"))``.

``generate`` prepares its arguments as ever and hands them over. What becomes of them:

* ``input_ids``, ``attention_mask``: a batch of prompts, padded on the left or not; rows accept different numbers of tokens a step;
* ``do_sample``, ``temperature``, ``top_k``, ``top_p`` and all logits processors shape the target's law, in the order in which ``generate``
  has them; a :class:`guided.GuidedLogitsProcessor` among them is the constraint, which drafts keep to as well. (Processors that go on from
  their own last step cannot judge several places of a text at once, and are refused.)
* ``max_new_tokens`` (or ``max_length``), ``eos_token_id``, ``pad_token_id``, ``num_return_sequences``, ``return_dict_in_generate`` as
  ever; every stopping criterion is asked about every token, row by row;
* ``draft_seed`` is an argument of ``generate`` too; otherwise the seed is drawn from torch's generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from transformers.generation.utils import GenerateDecoderOnlyOutput

from grammars.errors import ModelError
from samplers.masked import Request
from samplers.registry import Law
from samplers.sampling import Settings
from samplers.warpers.base import Row as Text
from samplers.warpers.base import Warper

from .drafting import borrowed
from .processor import GuidedLogitsProcessor

if TYPE_CHECKING:
    from speculative.decode import Row

    from .drafting import Parts, Speculation

__all__ = ["SpeculationOutput", "run"]

_ENDS = ("MaxLengthCriteria", "EosTokenCriteria")  # what the loop sees to by itself


@dataclass
class SpeculationOutput(GenerateDecoderOnlyOutput):
    """What ``generate(return_dict_in_generate=True)`` returns.

    Attributes:
        sequences: ``int64[rows, length]``, prompts included, padded on the right.
        forwards: of the model, for the whole batch.
        drafted, accepted: of each row, tokens that were proposed, and that were taken.
    """

    forwards: int | None = None
    drafted: list[int] | None = None
    accepted: list[int] | None = None


def run(
    speculation: Speculation,
    model: Any,
    input_ids: torch.LongTensor,
    logits_processor: Any = None,
    stopping_criteria: Any = None,
    generation_config: Any = None,
    *,
    attention_mask: torch.Tensor | None = None,
    draft_seed: int | None = None,
    streamer: Any = None,
    **model_kwargs: Any,
) -> torch.LongTensor | SpeculationOutput:
    """Generates for each row of a batch; called by ``generate`` of transformers, see this module's docstring.

    Returns:
        ``int64[rows, length]`` on the device of ``input_ids``, or a :class:`SpeculationOutput`.

    Raises:
        ModelError: an encoder-decoder, prompts as embeddings, beams, a streamer; see also :func:`guided.drafting.parts_of`.
        ValueError: see :func:`speculative.decode`.
    """
    from samplers.models import HFModel
    from speculative.decode import Loop

    config = generation_config
    if model.config.is_encoder_decoder or model_kwargs.get("inputs_embeds") is not None:
        raise ModelError("speculation is for decoder-only models, with prompts that are token ids")
    if config.num_beams > 1 or streamer is not None:
        raise ModelError("speculation writes one text a row, several tokens at once: leave num_beams and streamer out")
    ends = [] if config._eos_token_tensor is None else config._eos_token_tensor.flatten().tolist()
    constraint, settings, warpers = _law(logits_processor or [], config.do_sample, input_ids, attention_mask)
    seed = int(torch.randint(1 << 62, (1,))) if draft_seed is None else draft_seed
    each = config.num_return_sequences if config.do_sample else 1  # generate repeats every prompt that often
    requests = [
        _request(input_ids, attention_mask, row, each, constraint, config.max_length - input_ids.shape[1], seed)
        for row in range(input_ids.shape[0])
    ]
    target = HFModel(model, eos_token_ids=ends)
    target.pack()
    vocabulary = None if constraint is None else constraint.vocabulary
    with borrowed(speculation.named, target, vocabulary, settings.temperature == 0, owner=model) as parts:
        loop = Loop(target, parts.drafter, parts.verifier, parts.shape, parts.stop, settings, warpers, None, parts.pace)
        rows = [loop.row(i, request, ends) for i, request in enumerate(requests)]
        others = [one for one in stopping_criteria or [] if type(one).__name__ not in _ENDS]
        found = _Found(input_ids, len(rows))
        for round_ in loop.run(rows):
            found.forwards += round_.forwards
            for counts in round_.rows:
                found.drafted[counts.row] += counts.drafted
                found.accepted[counts.row] += counts.accepted
            for row in found.add([(step.row, step.token) for step in round_], others):
                _end(rows[row], parts)
    pad = 0 if config._pad_token_tensor is None else int(config._pad_token_tensor)
    return found.output(pad, config.return_dict_in_generate)


class _InBatch(Warper):
    """A logits processor of ``generate`` that is shown one text of the batch at a time, as it is in the batch.

    Some know the batch that they were made for (where the padding of each row ends, say). So a text is padded as its prompt is, and in its
    row of a batch of that size.
    """

    law: Law = "lossy"
    reads_text = True

    def __init__(self, processor: Any, batch: torch.Tensor, prompts: Sequence[tuple[int, ...]]) -> None:
        self._processor, self._batch = processor, batch
        self._rows = {prompt: row for row, prompt in reversed(list(enumerate(prompts)))}

    def describe(self) -> str:
        """See :meth:`Warper.describe`."""
        return type(self._processor).__name__

    def warp(self, rows: Sequence[Text], scores: torch.Tensor) -> torch.Tensor:
        """See :meth:`Warper.warp`."""
        return torch.stack([self._one(row, its) for row, its in zip(rows, scores)])

    def _one(self, text: Text, scores: torch.Tensor) -> torch.Tensor:
        row, count = self._rows[tuple(text.tokens[: text.prompt])], len(self._batch)
        ids = torch.cat([self._batch[row], self._batch.new_tensor(list(text.made))]).expand(count, -1).contiguous()
        shown = scores.float().expand(count, -1).contiguous()  # generate gives them in float32
        found: torch.Tensor = self._processor(ids, shown)[row]
        return found.to(scores.dtype)


def _law(
    processors: Sequence[Any], sample: bool, batch: torch.Tensor, attention: torch.Tensor | None
) -> tuple[GuidedLogitsProcessor | None, Settings, list[Any] | None]:
    """The constraint among logits processors, and the settings and warpers that the others are."""
    guides = [one for one in processors if isinstance(one, GuidedLogitsProcessor)]
    if len(guides) > 1:
        raise ModelError("give one GuidedLogitsProcessor: a constraint that is several is composed with & of grammars")
    from samplers.warpers import CONSTRAINT

    constraint = guides[0] if guides else None
    parts: list[Any] = [CONSTRAINT if one is constraint else one for one in processors]
    settings = _settings([one for one in parts if one is not CONSTRAINT]) if sample and (not guides or parts[0] is CONSTRAINT) else None
    if settings is not None:
        return constraint, settings, None
    plain = Settings() if sample else Settings(0.0)
    if all(one is CONSTRAINT for one in parts):
        return constraint, plain, None
    prompts = [_prompt(batch, attention, row) for row in range(len(batch))]
    return constraint, plain, [one if one is CONSTRAINT else _InBatch(one, batch, prompts) for one in parts]


def _settings(processors: Sequence[Any]) -> Settings | None:
    """Temperature, top-k and top-p, in this order and nothing else; ``None`` where there is more to it."""
    fields = {"TemperatureLogitsWarper": "temperature", "TopKLogitsWarper": "top_k", "TopPLogitsWarper": "top_p"}
    names = [type(one).__name__ for one in processors]
    if names != [name for name in fields if name in names]:
        return None
    if any(getattr(one, "min_tokens_to_keep", 1) != 1 for one in processors):
        return None
    return Settings(**{fields[name]: getattr(one, fields[name]) for name, one in zip(names, processors)})


def _prompt(input_ids: torch.Tensor, attention_mask: torch.Tensor | None, row: int) -> tuple[int, ...]:
    ids = input_ids[row]
    return tuple((ids if attention_mask is None else ids[attention_mask[row].to(ids.device).bool()]).tolist())


def _request(
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor | None,
    row: int,
    each: int,
    constraint: GuidedLogitsProcessor | None,
    room: int,
    seed: int,
) -> Request:
    prompt = _prompt(input_ids, attention_mask, row)
    if constraint is None:
        return Request(prompt, None, room, seed + row)
    budget = constraint.budget(row // each)
    if budget is not None and constraint.max_new_tokens is not None:
        room = min(room, constraint.max_new_tokens)
    return Request(prompt, constraint.automaton(row // each), room, seed + row, budget)


def _end(row: Row, parts: Parts) -> None:
    """Ends a row that its stopping criteria end."""
    if not row.place.ended:
        row.place = replace(row.place, left=0)
        parts.drafter.end(row.index)


class _Found:
    """The texts so far."""

    def __init__(self, prompts: torch.Tensor, rows: int) -> None:
        self.prompts = prompts
        self.texts: list[list[int]] = [[] for _ in range(rows)]
        self.stopped = [False] * rows
        self.forwards, self.drafted, self.accepted = 0, [0] * rows, [0] * rows

    def add(self, steps: Sequence[tuple[int, int]], criteria: Sequence[Any]) -> list[int]:
        """Adds a round's tokens, up to the first that a criterion stops at; the rows that are stopped."""
        for row, token in steps:
            if not self.stopped[row]:
                self.texts[row].append(token)
                self.stopped[row] = bool(criteria) and self._stops(row, criteria)
        return [row for row in {row for row, _ in steps} if self.stopped[row]]

    def _stops(self, row: int, criteria: Sequence[Any]) -> bool:
        ids = torch.cat([self.prompts[row], self.prompts.new_tensor(self.texts[row])])[None]
        return any(bool(torch.as_tensor(one(ids, None)).all()) for one in criteria)

    def output(self, pad: int, as_dict: bool) -> Any:
        """What ``generate`` returns."""
        start, longest = self.prompts.shape[1], max(map(len, self.texts))
        sequences = self.prompts.new_full((len(self.texts), start + longest), pad)
        sequences[:, :start] = self.prompts
        for row, text in enumerate(self.texts):
            sequences[row, start : start + len(text)] = self.prompts.new_tensor(text)
        if not as_dict:
            return sequences
        counts = {"forwards": self.forwards, "drafted": self.drafted, "accepted": self.accepted}
        return SpeculationOutput(sequences=sequences, **counts)  # type: ignore[arg-type]
