"""Speculative decoding measured: Spec-Bench prompts and JSON extraction, many ways to decode the same text, in turn.

All ways write every task greedily before the next task begins, in an order that moves on by one from task to task, so that whatever else
the machine does strikes all alike. What is timed is what comes after the first token: the prompt costs everybody the same. Each
(task, way) is a record in ``OUT/speculation.jsonl``; a run that was stopped goes on where it was.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from grammars import JsonSchema
from grammars.errors import GuidedError

from .suites import maskbench
from .verdicts import bar_of, earlier

if TYPE_CHECKING:
    from rich.console import Console

    from guided.drafting import Speculation
    from guided.model import Model
    from samplers.masked import Request

__all__ = ["JSON_GROUP", "WAYS", "Task", "Written", "json_tasks", "run", "spec_bench_tasks"]

GROUPS = {"translation": "translation", "summarization": "summarization", "qa": "question answering", "math_reasoning": "mathematics"}
"""Names of Spec-Bench's tasks, as its paper groups them; ``rag`` stands for itself, all others are the turns of MT-bench."""
JSON_GROUP = "JSON extraction"
_EXTRACT = "Here is a record:\n{text}\nWrite it as a JSON object."
_LONGEST_PROMPT = 1200
_INSTANCE = (60, 500)  # characters of a JSON text that is to be extracted


@dataclass(frozen=True, slots=True)
class Task:
    """A text to write.

    Attributes:
        id: unique.
        group: what results are summed over.
        prompt: for the user's turn.
        schema: the constraint of a JSON task.
    """

    id: str
    group: str
    prompt: str
    schema: Any = None


@dataclass(slots=True)
class Written:
    """What one way made of one task.

    Attributes:
        id: of task and way.
        task, group, way: see :class:`Task` and :data:`WAYS`.
        tokens: of the text; ``timed`` of them came after the first token's step, in ``seconds``.
        forwards: of the model after the first step; ``None`` where they are not all alike (a draft by some of its layers).
        drafted, accepted: proposals that the model judged, and took; ``None`` where it is not known.
        same: whether the text is that of plain decoding; ``None`` for that itself.
    """

    id: str
    task: str
    group: str
    way: str
    tokens: int
    timed: int
    seconds: float
    forwards: int | None
    drafted: int | None = None
    accepted: int | None = None
    same: bool | None = None


# ---------------------------------------------------------------- tasks
def spec_bench_tasks(data: Path, each: int, seed: int) -> list[Task]:
    """``each`` prompts (first turns) of every group of Spec-Bench, drawn with ``seed``.

    Raises:
        GuidedError: the data folder has no ``prompts_spec_bench.jsonl.gz``.
    """
    path = data / "prompts_spec_bench.jsonl.gz"
    groups: dict[str, list[Task]] = {}
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                group = "retrieval (RAG)" if row["category"] == "rag" else GROUPS.get(row["category"], "conversation")
                groups.setdefault(group, []).append(Task(f"spec-bench/{row['question_id']}", group, row["turns"][0]))
    except OSError as error:
        raise GuidedError(f"cannot read {path.name} in the data folder {str(data)!r}: {error.strerror or error}") from error
    return [task for group in groups.values() for task in random.Random(seed).sample(group, min(each, len(group)))]


def json_tasks(data: Path, count: int, seed: int, vocabulary: Any) -> list[Task]:
    """``count`` schemas of MaskBench, each with a record to write as JSON: a valid instance of it, told line by line."""
    cases = maskbench(data)
    random.Random(seed).shuffle(cases)
    found: list[Task] = []
    for case in cases:
        if len(found) == count:
            break
        text = next((_record(instance.data) for instance in case.instances if instance.valid and _fits(instance.data)), None)
        if text is None or not _compiles(case.schema, vocabulary):
            continue
        found.append(Task(f"json/{case.split}/{case.id}", JSON_GROUP, _EXTRACT.format(text=text), case.schema))
    return found


def _fits(data: Any) -> bool:
    return isinstance(data, dict) and len(data) > 1 and _INSTANCE[0] <= len(json.dumps(data)) <= _INSTANCE[1]


def _compiles(schema: Any, vocabulary: Any) -> bool:
    try:
        _constraint(schema).compile(vocabulary)
    except GuidedError:
        return False
    return True


def _constraint(schema: Any) -> JsonSchema:
    """JSON as programs write it to each other: without blanks, and no character escaped that need not be."""
    return JsonSchema(schema, whitespace="compact", escapes="minimal")


def _record(data: Any) -> str:
    """The leaves of a JSON value, a line each: the words of the keys that lead there, and the value."""

    def leaves(value: Any, path: tuple[str, ...]) -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from leaves(inner, (*path, key))
        elif isinstance(value, list):
            for number, inner in enumerate(value, 1):
                yield from leaves(inner, (*path, str(number)))
        else:
            yield f"- {' '.join(path)}: {value if isinstance(value, str) else json.dumps(value)}"

    return "\n".join(leaves(data, ()))


# ---------------------------------------------------------------- ways to decode
@dataclass(frozen=True, slots=True)
class _Job:
    """A task made ready for a model."""

    model: Model
    request: Request
    clock: Callable[[], float]


Timed = tuple[list[int], int, float, int | None, int | None, int | None]
"""Tokens, how many of them are timed, seconds, forwards, drafted, accepted."""
Way = Callable[[_Job], Timed]


def _plain(job: _Job) -> Timed:
    """One token a forward, by the library's own loop."""
    from samplers.masked import decode
    from samplers.sampling import Settings

    steps = decode(job.model.model, [job.request], job.model.vocabulary.eos_token_ids, Settings(0.0), job.model.masks)
    tokens = [step.token for step in next(steps)]
    began = job.clock()
    rest = [step.token for some in steps for step in some]
    return [*tokens, *rest], len(rest), job.clock() - began, len(rest), 0, 0


def _speculation(draft: str | Callable[[], Speculation]) -> Way:
    """A draft of :mod:`guided.drafting`, or one made by hand; what it has learned stays with it from task to task."""
    kept: WeakKeyDictionary[Model, Speculation] = WeakKeyDictionary()

    def run(job: _Job) -> Timed:
        from guided.drafting import rounds
        from samplers.sampling import Settings

        job.model.language_model.clear()  # nothing of the ways before
        if job.model not in kept:
            kept[job.model] = _clocked(draft, job) if isinstance(draft, str) else draft()
        found = rounds(job.model, [job.request], kept[job.model], Settings(0.0))
        tokens = [step.token for step in next(found)]
        forwards = drafted = accepted = timed = 0
        began = job.clock()
        for round_ in found:
            tokens += [step.token for step in round_]
            timed += len(round_)
            forwards += round_.forwards
            drafted += sum(row.drafted for row in round_.rows)
            accepted += sum(row.accepted for row in round_.rows)
        return tokens, timed, job.clock() - began, forwards, drafted, accepted

    return run


def _clocked(name: str, job: _Job) -> Speculation:
    """What a name stands for; what it measures on the way is measured by the run's own clock."""
    from guided.drafting import Speculation, parts_of
    from speculative.pace import Adaptive

    parts = parts_of(name, job.model.language_model, job.model.vocabulary, greedy=True)
    if isinstance(parts.pace, Adaptive):
        parts.pace.clock = job.clock
    return Speculation(parts.drafter, parts.shape, parts.stop, parts.verifier, parts.pace)


class _Watch:
    """A logits processor that notes when the first token's scores are there."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock, self.began = clock, 0.0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.began = self.began or self.clock()
        return scores


def _transformers(counted: bool = True, **options: Any) -> Way:
    """``generate`` of transformers, with our processor where there is a constraint."""

    def run(job: _Job) -> Timed:
        import torch

        from guided.processor import GuidedLogitsProcessor

        request, network = job.request, job.model.model
        ids = torch.tensor([list(request.prompt)], device=network.device)
        watch = _Watch(job.clock)
        processors: list[Any] = [watch]
        if request.automaton is not None:
            processors.append(GuidedLogitsProcessor(None, request.automaton, max_new_tokens=request.max_tokens))
        calls = 0

        def count(*_: Any) -> None:
            nonlocal calls
            calls += 1

        hook = network.register_forward_pre_hook(count)
        try:
            out = network.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=request.max_tokens,
                do_sample=False,
                logits_processor=processors,
                eos_token_id=list(job.model.vocabulary.eos_token_ids),
                pad_token_id=job.model.vocabulary.eos_token_ids[0],
                **options,
            )
        finally:
            hook.remove()
        seconds = job.clock() - watch.began
        tokens = out[0, ids.shape[1] :].tolist()
        return tokens, len(tokens) - 1, seconds, calls - 1 if counted else None, None, None

    return run


def _always(drafter: str, shape: str, nodes: int) -> Callable[[], Speculation]:
    """A drafter with a shape of its own, at every step."""

    def made() -> Speculation:
        from guided.drafting import Speculation
        from speculative.drafters import SamDrafter, TokenRecycling
        from speculative.pace import Always
        from speculative.shapes.levels import Chain
        from speculative.shapes.sequoia import Sequoia

        shapes: dict[str, Callable[[], Any]] = {
            "chain": lambda: Chain(nodes),
            "template": lambda: TokenRecycling.tree(nodes, 6),
            "sequoia": lambda: Sequoia(nodes),
        }
        drafters: dict[str, Callable[[], Any]] = {"sam": lambda: SamDrafter(threshold=1), "recycling": lambda: TokenRecycling(1 << 18)}
        return Speculation(drafters[drafter](), shape=shapes[shape](), pace=Always(nodes, nodes))

    return made


WAYS: Mapping[str, Way] = {
    "plain": _plain,
    "transformers": _transformers(),
    "transformers, prompt lookup": _transformers(prompt_lookup_num_tokens=10),
    "transformers, assisted (own first layers)": _transformers(counted=False, assistant_early_exit=8),
    "forced tokens": _speculation("forced"),
    "lookup": _speculation("lookup"),
    "sam": _speculation("sam"),
    "recycling": _speculation("recycling"),
    "ngrams": _speculation("ngrams"),
    "auto": _speculation("auto"),
    "lookahead": _speculation("lookahead"),
    "jacobi": _speculation("jacobi"),
    "sam, chain of 8 always": _speculation(_always("sam", "chain", 8)),
    "recycling, chain of 4 always": _speculation(_always("recycling", "chain", 4)),
    "recycling, template of 16 always": _speculation(_always("recycling", "template", 16)),
    "recycling, Sequoia of 16 always": _speculation(_always("recycling", "sequoia", 16)),
}
"""Ways to decode, by name. Names without a shape are those of :mod:`guided.drafting`: as much is drafted as pays."""


# ---------------------------------------------------------------- running
def run(
    tasks: Sequence[Task],
    ways: Sequence[str],
    model: Model,
    out: Path,
    *,
    max_tokens: int = 128,
    clock: Callable[[], float] = time.perf_counter,
    options: Mapping[str, Any] | None = None,
    console: Console | None = None,
) -> list[dict[str, Any]]:
    """Decodes every task in every way; the records, kept in ``out/speculation.jsonl``.

    Args:
        ways: names in :data:`WAYS`; ``plain`` is needed, everything is compared with it.
        max_tokens: of each text.
        clock: seconds.
        options: what else the records depend on: a run with others begins anew.

    Raises:
        GuidedError: an unknown way, or ``plain`` is missing.
    """
    unknown = [name for name in ways if name not in WAYS]
    if unknown or "plain" not in ways:
        raise GuidedError(f"{f'no way {unknown[0]!r}' if unknown else 'plain must be among the ways'}; there are: {'; '.join(WAYS)}")
    out.mkdir(parents=True, exist_ok=True)
    path = out / "speculation.jsonl"
    header = {"run": _digest(), "max tokens": max_tokens, "model": model.name, **(options or {})}
    records = earlier(path, header)
    _warm_up(ways, model)
    with path.open("w", encoding="utf-8") as lines, bar_of(console) as progress:
        for row in [header, *records.values()]:
            lines.write(json.dumps(row) + "\n")
        bar = progress.add_task("texts", total=len(tasks) * len(ways), completed=len(records))
        for number, task in enumerate(tasks):
            for record in _decode(task, number, ways, model, max_tokens, clock, records):
                records[record["id"]] = record
                lines.write(json.dumps(record) + "\n")
                lines.flush()
                progress.advance(bar)
    wanted = {f"{task.id} / {way}" for task in tasks for way in ways}
    return [record for name, record in records.items() if name in wanted]


def _warm_up(ways: Iterable[str], model: Model) -> None:
    """Everything loaded and compiled before a clock runs."""
    for way in ways:
        for schema in (None, {"type": "object", "properties": {"warm": {"type": "boolean"}}, "required": ["warm"]}):
            WAYS[way](_Job(model, _request(Task("", "", "Count to ten.", schema), model, 12), time.perf_counter))


def _decode(
    task: Task,
    number: int,
    ways: Sequence[str],
    model: Model,
    max_tokens: int,
    clock: Callable[[], float],
    known: Mapping[str, Mapping[str, Any]],
) -> Iterator[dict[str, Any]]:
    """The records of a task that are not known yet. Where any is missing the text of plain decoding is needed, and made again."""
    names = [f"{task.id} / {way}" for way in ways]
    if all(name in known for name in names):
        return
    request = _request(task, model, max_tokens)
    texts: dict[str, list[int]] = {}
    made: list[Written] = []
    order = [ways[(i + number) % len(ways)] for i in range(len(ways))]
    for way in order:
        tokens, timed, seconds, forwards, drafted, accepted = WAYS[way](_Job(model, request, clock))
        texts[way] = tokens
        made.append(Written(f"{task.id} / {way}", task.id, task.group, way, len(tokens), timed, seconds, forwards, drafted, accepted))
    for record in made:
        record.same = None if record.way == "plain" else texts[record.way] == texts["plain"]
        yield asdict(record)


def _request(task: Task, model: Model, max_tokens: int) -> Request:
    from guided.inputs import target_of
    from guided.prompts import prompt_ids
    from samplers.masked import Request

    constraint = None if task.schema is None else _constraint(task.schema)
    target = target_of(constraint)
    ids = prompt_ids(model, task.prompt, target, chat=True, instruct=False)
    if len(ids) > _LONGEST_PROMPT:  # the beginning and the end of a long prompt: where it says what to do, mostly
        ids = [*ids[: _LONGEST_PROMPT // 2], *ids[-_LONGEST_PROMPT // 2 :]]
    compiled = model.compile(constraint, target)
    room = max_tokens
    if compiled.automaton is not None:  # a text of the language must fit
        room = max(max_tokens, len(compiled.automaton.shortest_completion(compiled.automaton.start)) + 32)
    return Request(ids, compiled.automaton, room, 0, compiled.budget)


def _digest() -> str:
    """Of the source that decides what is measured."""
    import samplers
    import speculative

    digest = hashlib.sha256()
    for folder in (Path(samplers.__file__).parent / "models", Path(speculative.__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()[:16]
