"""Our beam search beside that of transformers: same prompts, same rules, taken in turns in one run; CPU time of the process."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from .records import Record, Task

if TYPE_CHECKING:
    from guided.model import Model

__all__ = ["tasks"]

_OURS, _THEIRS = "guided", "transformers"


def tasks(model: Model, prompts: list[str], *, beams: tuple[int, ...] = (4, 8), max_tokens: int = 24) -> list[Task]:
    """One task a prompt, width and library; each begins with nothing cached. Both libraries write two tokens before the first one."""
    found = []

    @lru_cache(maxsize=1)
    def warm_up() -> None:
        for library in (_run_ours, _run_theirs):
            library(model, _ids(model, prompts[0]), beams[0], 2)

    def measured(library: Callable[..., Record], ids: list[int], k: int) -> Record:
        warm_up()
        return library(model, ids, k, max_tokens)

    for i, prompt in enumerate(prompts):
        ids = _ids(model, prompt)
        for k in beams:
            for library in (_OURS, _THEIRS):
                run = _run_ours if library == _OURS else _run_theirs
                found.append(Task("beams", f"{i} with {k}", library, partial(measured, run, ids, k)))
    return found


def _ids(model: Model, prompt: str) -> list[int]:
    from guided.inputs import target_of
    from guided.prompts import prompt_ids

    return prompt_ids(model, prompt, target_of(None), chat=True, instruct=False)


def _clock(model: Model) -> Callable[[], float]:
    """CPU time of the process, so that what else runs on the machine does not count; wall time for a model on an accelerator."""
    return time.process_time if model.model.device.type == "cpu" else time.perf_counter


def _record(beams: int, prompt: int, tokens: Any, score: float, seconds: float) -> Record:
    return {"beams": beams, "prompt": prompt, "tokens": list(tokens), "score": score, "length": len(tokens), "seconds": seconds}


def _run_ours(model: Model, ids: list[int], beams: int, max_tokens: int) -> Record:
    from samplers.models import HFModel
    from samplers.search.beam import beam_search
    from samplers.target import Target

    language = HFModel(model.model, eos_token_ids=model.vocabulary.eos_token_ids)
    clock = _clock(model)
    began = clock()
    best = beam_search(Target(language, tuple(ids), None, max_tokens), beams=beams, ending="cut").best
    return _record(beams, len(ids), best.tokens, best.score, clock() - began)


def _run_theirs(model: Model, ids: list[int], beams: int, max_tokens: int) -> Record:
    import torch

    inputs = torch.tensor([ids], device=model.model.device)
    options: dict[str, Any] = {"do_sample": False, "num_beams": beams, "max_new_tokens": max_tokens, "return_dict_in_generate": True}
    options |= {"eos_token_id": list(model.vocabulary.eos_token_ids), "output_scores": True, "length_penalty": 1.0}
    clock = _clock(model)
    began = clock()
    output = model.model.generate(inputs, attention_mask=torch.ones_like(inputs), **options)
    seconds = clock() - began
    tokens = output.sequences[0, len(ids) :].tolist()
    return _record(beams, len(ids), tokens, float(output.sequences_scores[0]), seconds)
