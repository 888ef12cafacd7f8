"""A search strategy in the place of transformers' own decoding: ``model.generate(..., custom_generate=guided.strategies.Beam())``.

``generate`` prepares its arguments as ever and hands them to the strategy. What becomes of them:

* ``input_ids``, ``attention_mask``: a batch of prompts, padded on the left or not; each is searched by itself, with one cache of prefixes;
* ``max_new_tokens`` (or ``max_length``), ``eos_token_id``, ``pad_token_id``, ``max_time`` (of the whole batch), ``num_return_sequences``,
  ``return_dict_in_generate``: as in beam search of transformers, scores included (for ``num_return_sequences`` above 1 transformers itself
  asks for a ``num_beams`` that is as large, which says nothing to the strategy);
* a :class:`guided.GuidedLogitsProcessor` in ``logits_processor`` is the constraint of the search; all other processors act on the
  log-probabilities of each step, as they do in beam search of transformers;
* of the keywords of strategies, ``search_budget``, ``search_seed`` (otherwise the seed is drawn from torch's generator), ``search_trace``
  and ``text_tokenizer`` (what reads tokens for functions of texts, where there is no constraint: transformers keeps ``tokenizer`` to
  itself) are arguments of ``generate``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers.generation.utils import GenerateBeamDecoderOnlyOutput

from grammars.errors import ModelError

from .processor import GuidedLogitsProcessor
from .strategies import Setting

if TYPE_CHECKING:
    from grammars import Automaton
    from samplers.models import Context, HFModel
    from samplers.search.frontier import Found, SearchBudget, SearchResult
    from samplers.search.trace import Trace

    from .strategies import Strategy

__all__ = ["SearchOutput", "run"]


@dataclass
class SearchOutput(GenerateBeamDecoderOnlyOutput):
    """What ``generate(return_dict_in_generate=True)`` returns for a strategy.

    Attributes:
        sequences: ``int64[batch * num_return_sequences, length]``, prompts included, padded on the right.
        sequences_scores: ``float32[batch * num_return_sequences]``, what the strategy ranks by.
        searches: the whole result of each prompt's search.
    """

    searches: list[SearchResult] | None = None


class _Processed:
    """A language model whose log-probabilities after one prompt of a batch go through logits processors of Hugging Face.

    Some processors know the batch that they were made for (where the padding of each row ends, say). So each text is shown as ``generate``
    shows it: padded as its prompt is, and in its row of a batch of that size. Processors that remember the rows of the step before cannot
    be used so; those of transformers do not.

    Args:
        model: the model itself.
        processors: in order.
        batch: ``int64[rows, length]``, the prompts as ``generate`` holds them.
        row: of the prompt.
        prompt: number of its tokens.
    """

    def __init__(self, model: HFModel, processors: Sequence[Any], batch: torch.Tensor, row: int, prompt: int) -> None:
        self._model, self._processors = model, list(processors)
        self._batch, self._row, self._prompt = batch, row, prompt
        self.width, self.eos_token_ids = model.width, model.eos_token_ids

    def context(self, tokens: Sequence[int]) -> Context:
        return self._model.context(tokens)

    def next_logprobs(self, contexts: Sequence[Context]) -> torch.Tensor:
        rows = self._model.next_logprobs(contexts)
        made = [self._processed(context, row) for context, row in zip(contexts, rows)]
        return torch.stack(made) if made else rows

    def _processed(self, context: Context, row: torch.Tensor) -> torch.Tensor:
        count, device = self._batch.shape[0], self._batch.device
        text = torch.cat([self._batch[self._row], self._batch.new_tensor(context.tokens_from(self._prompt))])
        ids, scores = text.expand(count, -1).contiguous(), row.float().to(device).expand(count, -1).contiguous()
        for processor in self._processors:
            scores = processor(ids, scores)
        return scores[self._row].to(row.device, row.dtype)

    def score(self, context: Context, continuations: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        from samplers.models.protocol import score_by_steps

        return score_by_steps(self, context, continuations)

    def hidden(self, contexts: Sequence[Context]) -> torch.Tensor:
        return self._model.hidden(contexts)


def run(
    strategy: Strategy,
    model: Any,
    input_ids: torch.LongTensor,
    logits_processor: Any = None,
    stopping_criteria: Any = None,
    generation_config: Any = None,
    *,
    search_budget: SearchBudget | None = None,
    search_seed: int | None = None,
    search_trace: Trace | None = None,
    text_tokenizer: Any = None,
    attention_mask: torch.Tensor | None = None,
    **model_kwargs: Any,
) -> torch.LongTensor | SearchOutput:
    """Searches for each prompt of a batch; called by ``generate`` of transformers, see this module's docstring.

    Returns:
        ``int64[batch * num_return_sequences, length]`` on the device of ``input_ids``, or a :class:`SearchOutput`.

    Raises:
        ModelError: an encoder-decoder, or prompts as embeddings; a stopping criterion that a search cannot follow.
        ValueError: fewer texts were found than ``num_return_sequences``; a trace, and several prompts.
    """
    from samplers.models import HFModel

    if model.config.is_encoder_decoder or model_kwargs.get("inputs_embeds") is not None:
        raise ModelError("strategies search decoder-only models, with prompts that are token ids")
    config = generation_config
    guide, others = _split(logits_processor or [])
    until = _until(stopping_criteria or [])
    ends = [] if config._eos_token_tensor is None else config._eos_token_tensor.flatten().tolist()
    shared = HFModel(model, eos_token_ids=ends)
    each = max(config.num_beams, config.num_return_sequences)  # generate repeats every prompt that often
    if search_trace is not None and input_ids.shape[0] > each:
        raise ValueError(f"a trace is of one search: give one prompt, not {input_ids.shape[0] // each}")
    seed = int(torch.randint(1 << 62, (1,))) if search_seed is None else search_seed
    room = config.max_length - input_ids.shape[1]
    results = []
    for i, row in enumerate(range(0, input_ids.shape[0], each)):
        prompt = _prompt(input_ids, attention_mask, row)
        asked = _Processed(shared, others, input_ids, row, len(prompt)) if others else shared
        results.append(
            strategy.run(_setting(asked, prompt, i, guide, room, seed, search_budget, _left(until), search_trace, text_tokenizer))
        )
    return _output(results, input_ids[::each], config)


def _split(processors: Sequence[Any]) -> tuple[GuidedLogitsProcessor | None, list[Any]]:
    """The constraint among logits processors, and the others."""
    guides = [one for one in processors if isinstance(one, GuidedLogitsProcessor)]
    if len(guides) > 1:
        raise ModelError("give one GuidedLogitsProcessor: a constraint that is several is composed with & of grammars")
    return (guides[0] if guides else None), [one for one in processors if not isinstance(one, GuidedLogitsProcessor)]


def _until(criteria: Sequence[Any]) -> float | None:
    """When stopping criteria say that time is over, as ``time.time`` counts; the others must be those that ``generate`` itself adds."""
    until: float | None = None
    for one in criteria:
        name = type(one).__name__
        if name == "MaxTimeCriteria":
            end = one.initial_timestamp + one.max_time
            until = end if until is None else min(until, end)
        elif name not in ("MaxLengthCriteria", "EosTokenCriteria"):
            raise ModelError(f"a search cannot follow the stopping criterion {name}; state the end of the text by a constraint")
    return until


def _left(until: float | None) -> float | None:
    """Seconds until then, for all prompts that are still to come; a search that comes too late has next to none."""
    return None if until is None else max(1e-6, until - time.time())


def _prompt(input_ids: torch.Tensor, attention_mask: torch.Tensor | None, row: int) -> tuple[int, ...]:
    ids = input_ids[row]
    return tuple((ids if attention_mask is None else ids[attention_mask[row].to(ids.device).bool()]).tolist())


def _setting(
    model: Any,
    prompt: tuple[int, ...],
    row: int,
    guide: GuidedLogitsProcessor | None,
    room: int,
    seed: int,
    budget: SearchBudget | None,
    seconds: float | None,
    trace: Trace | None,
    texts: Any,
) -> Setting:
    """Where the strategy runs for one prompt of the batch."""
    from samplers.search.frontier import SearchBudget
    from samplers.target import Target

    automaton: Automaton | None = None if guide is None else guide.automaton(row)
    if seconds is not None:
        given = budget or SearchBudget()
        budget = SearchBudget(given.forwards, given.tokens, seconds if given.seconds is None else min(seconds, given.seconds))
    closes = automaton is not None and guide is not None and guide.max_new_tokens is not None
    if closes and guide is not None and guide.max_new_tokens is not None:
        room = min(room, guide.max_new_tokens)
    return Setting(
        Target(model, prompt, automaton, room),
        texts=texts if texts is not None else None if guide is None else guide.vocabulary,
        ending="budget" if closes else "cut",
        seed=seed + row,
        budget=budget,
        trace=trace,
    )


def _output(results: Sequence[SearchResult], prompts: torch.Tensor, config: Any) -> torch.LongTensor | SearchOutput:
    """The found texts behind their prompts, as ``generate`` returns them."""
    wanted = config.num_return_sequences
    rows: list[tuple[int, Found]] = []
    for i, result in enumerate(results):
        if len(result.found) < wanted:
            few = f"{result.method} found {len(result.found)} texts and num_return_sequences is {wanted}"
            raise ValueError(f"{few}: search wider, or ask for fewer")
        rows += [(i, found) for found in result.found[:wanted]]
    start, longest = prompts.shape[1], max(len(found.tokens) for _, found in rows)
    pad = 0 if config._pad_token_tensor is None else int(config._pad_token_tensor)
    sequences = prompts.new_full((len(rows), start + longest), pad)
    for place, (i, found) in enumerate(rows):
        sequences[place, :start] = prompts[i]
        sequences[place, start : start + len(found.tokens)] = prompts.new_tensor(found.tokens)
    if not config.return_dict_in_generate:
        return sequences  # type: ignore[return-value]
    scores = torch.tensor([found.score for _, found in rows], dtype=torch.float32, device=sequences.device)
    return SearchOutput(sequences=sequences, sequences_scores=scores, searches=list(results))  # type: ignore[arg-type]
