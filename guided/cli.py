"""The command line: ``guided generate``, ``sample``, ``search``, ``check`` and ``mask``, on the calls of the API; other commands beside it.

Results go to the standard output, everything else to the standard error. Exit codes: 0 it fits, 1 it does not, 2 bad input. Errors are
one readable message, never a traceback. What needs torch is imported where it is used, so that ``--help`` and ``check`` are quick.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from grammars.errors import ConstraintError, GuidedError

if TYPE_CHECKING:
    from rich.console import Console

    from grammars import Automaton, Constraint

    from .model import Model
    from .result import Partial, Result

__all__ = ["app", "main"]

FITS, DIFFERS, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    name="guided",
    help="Constrained generation: text that fits a schema, a regular expression or a grammar.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
_LONG = 1 << 20  # blanks in a row that `check` takes
F = TypeVar("F", bound=Callable[..., Any])


# ---------------------------------------------------------------- options
SchemaOption = Annotated[str | None, typer.Option("--schema", "-s", help="JSON schema: a file, '-' (standard input) or the JSON itself.")]
RegexOption = Annotated[str | None, typer.Option("--regex", "-r", help="Regular expression (Python's syntax) for the whole text.")]
LarkOption = Annotated[Path | None, typer.Option("--lark", help="File with a Lark grammar.")]
GbnfOption = Annotated[Path | None, typer.Option("--gbnf", help="File with a GBNF grammar (llama.cpp).")]
ChoiceOption = Annotated[list[str] | None, typer.Option("--choice", "-c", help="One of several texts; repeat the option.")]
BlanksOption = Annotated[str, typer.Option("--whitespace", help="Blanks in JSON: 'flexible', 'compact' or 'indent=N'.")]
ModelOption = Annotated[str | None, typer.Option("--model", "-m", help="Folder or hub id of a model; the packaged one otherwise.")]
DeviceOption = Annotated[str | None, typer.Option("--device", help="Where the model runs: cpu, cuda.")]
DtypeOption = Annotated[str | None, typer.Option("--dtype", help="Type of the weights: float32, bfloat16.")]


@contextmanager
def _reported() -> Iterator[None]:
    """Errors on purpose become one message and exit code 2."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:  # the reader has gone: nothing may be flushed to it at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(DIFFERS) from None
    except (GuidedError, OSError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None


def _command(name: str) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with _reported():
                return function(*args, **kwargs)

        app.command(name)(run)
        return function

    return decorate


def _read(path: str | Path) -> str:
    """A text file, or the standard input for ``-``. An encoding error names the file."""
    data = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConstraintError(f"{path} is not UTF-8 text (byte {error.start})") from None


def _schema(source: str) -> Any:
    inline = source.lstrip()[:1] in ("{", "[") or source.strip() in ("true", "false")
    text = source if inline else _read(source)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = "the schema" if inline or source == "-" else source
        raise ConstraintError(f"{where} is not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None


def _constraint(
    schema: str | None,
    regex: str | None,
    lark: Path | None,
    gbnf: Path | None,
    choice: list[str] | None,
    whitespace: str,
    any_layout: bool = False,
) -> Constraint | None:
    """The constraint that the options ask for; ``None`` if they ask for none.

    With ``any_layout`` a schema takes members in any order and blanks of any length: what JSON Schema itself says.

    Raises:
        ConstraintError: more than one is given, or the one that is given is malformed.
    """
    from grammars import Choice, Gbnf, JsonSchema, Lark, Regex

    given = {"--schema": schema, "--regex": regex, "--lark": lark, "--gbnf": gbnf, "--choice": choice or None}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ConstraintError(f"{' and '.join(names)} exclude each other: give one constraint")
    if schema is not None:
        if any_layout:
            return JsonSchema(_schema(schema), whitespace=whitespace, order="any", max_blanks=_LONG)
        return JsonSchema(_schema(schema), whitespace=whitespace)
    if regex is not None:
        return Regex(regex)
    if lark is not None:
        return Lark(_read(lark))
    if gbnf is not None:
        return Gbnf(_read(gbnf))
    return Choice(choice) if choice else None


def _needed(constraint: Constraint | None) -> Constraint:
    if constraint is None:
        raise ConstraintError("give a constraint: one of --schema, --regex, --lark, --gbnf, --choice")
    return constraint


@functools.cache
def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def _load(model: str | None, device: str | None, dtype: str | None) -> Model:
    with _console().status("loading the model"):
        _quiet()
        from .model import load

        return load(None if model in (None, "packaged") else model, device, dtype)


def _quiet() -> None:
    """No progress bars and notes of transformers between the results."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


# ---------------------------------------------------------------- generate
@_command("generate")
def generate(
    prompt: Annotated[str | None, typer.Argument(help="What to say to the model; '-' or nothing reads the standard input.")] = None,
    schema: SchemaOption = None,
    regex: RegexOption = None,
    lark: LarkOption = None,
    gbnf: GbnfOption = None,
    choice: ChoiceOption = None,
    whitespace: BlanksOption = "flexible",
    model: ModelOption = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    temperature: Annotated[float, typer.Option("--temperature", "-t", help="0 is greedy.")] = 1.0,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Draw from this many most probable tokens.")] = None,
    top_p: Annotated[float | None, typer.Option("--top-p", help="Draw from the most probable tokens with this share of the mass.")] = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Tokens of the text, at most.")] = 256,
    seed: Annotated[int | None, typer.Option("--seed", help="Same seed, same text.")] = None,
    draft: Annotated[
        str | None, typer.Option("--draft", help="Speculate: auto, lookup, sam, recycling, forced, ... (docs/speculation.md), or a model.")
    ] = None,
    n: Annotated[int, typer.Option("--n", "-n", help="How many texts, each on a line of its own.", min=1)] = 1,
    stream: Annotated[bool, typer.Option("--stream", help="Write the text as it comes.")] = False,
    chat: Annotated[bool, typer.Option("--chat/--no-chat", help="Use the model's chat template, where it has one.")] = True,
    instruct: Annotated[bool, typer.Option("--instruct/--no-instruct", help="Tell a chat model the schema.")] = True,
    budget: Annotated[
        bool, typer.Option("--budget/--no-budget", help="Complete the text within --max-tokens; without it a text may be cut.")
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write the result only.")] = False,
) -> None:
    """Write a text that fits a constraint (free text without one)."""
    constraint = _constraint(schema, regex, lark, gbnf, choice, whitespace)
    if stream and n > 1:
        raise ConstraintError("--stream shows one text: leave --n out")
    if prompt in (None, "-") and schema == "-":
        raise ConstraintError("the prompt and the schema cannot both come from the standard input")
    text = _read("-") if prompt is None or prompt == "-" else prompt
    options: dict[str, Any] = {"max_tokens": max_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    options |= {"budget": budget, "chat": chat, "instruct": instruct, "draft": draft}
    loaded = _load(model, device, dtype)
    if stream:
        results = [_streamed(loaded, text, constraint, options)]
    else:
        from .api import generate as run

        with _console().status("generating"):
            results = run(loaded, [text] * n, constraint, **options)
        for result in results:
            typer.echo(result.text if n == 1 else _one_line(result))
    if not quiet:
        _statistics(results)
    if constraint is not None and any(result.finish_reason != "complete" for result in results):
        raise typer.Exit(DIFFERS)


def _streamed(model: Model, prompt: str, constraint: Constraint | None, options: dict[str, Any]) -> Result:
    from .api import stream
    from .result import Partial

    last: Partial | Result | None = None
    for last in stream(model, prompt, constraint, **options):
        if isinstance(last, Partial):
            sys.stdout.write(last.delta)
            sys.stdout.flush()
    sys.stdout.write("\n")
    assert last is not None and not isinstance(last, Partial)
    return last


def _one_line(result: Result) -> str:
    """JSON on one line; other text as it is, where it is one line, else as a JSON string."""
    if isinstance(result.value, str) or result.value is None:
        return result.text if "\n" not in result.text else json.dumps(result.text, ensure_ascii=False)
    return json.dumps(result.value, ensure_ascii=False)


def _statistics(results: list[Result]) -> None:
    tokens = sum(len(result.tokens) for result in results)
    seconds = results[-1].timings.total
    kept = [step for result in results for step in result.log_kept]
    removed = sum(mass for result in results for mass in result.removed_mass) / max(1, len(kept))
    cut = sum(result.finish_reason == "length" for result in results)
    times = results[0].timings
    typer.echo(
        f"{tokens} tokens in {seconds:.1f} s ({tokens / seconds:.1f} tokens/s; constraint {times.compile * 1e3:.0f} ms, first token after "
        f"{times.first:.1f} s), mean mass removed by the mask {removed:.3f}, seed {results[0].seed}" + f", {cut} cut" * (cut > 0),
        err=True,
    )


# ---------------------------------------------------------------- sample
@_command("sample")
def sample(
    prompt: Annotated[str | None, typer.Argument(help="What to say to the model; '-' or nothing reads the standard input.")] = None,
    schema: SchemaOption = None,
    regex: RegexOption = None,
    lark: LarkOption = None,
    gbnf: GbnfOption = None,
    choice: ChoiceOption = None,
    whitespace: BlanksOption = "flexible",
    model: ModelOption = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    method: Annotated[
        str, typer.Option("--method", help="masking, importance, rejection, cars, asap, awrs, smc, awrs-smc, ...: see docs/sampling.md.")
    ] = "awrs",
    particles: Annotated[int, typer.Option("--particles", "-n", help="How many weighted texts.")] = 16,
    reward: Annotated[
        str | None, typer.Option("--reward", help="FILE.py:NAME, a function: the natural logarithm of what a text is worth.")
    ] = None,
    check: Annotated[
        str | None, typer.Option("--check", help="FILE.py:NAME, a function: false for a beginning that nothing good can follow.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="NAME=VALUE, an argument of the method; repeat the option.")
    ] = None,
    temperature: Annotated[float, typer.Option("--temperature", "-t", help="Above 0.")] = 1.0,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Tokens of the longest text.")] = 256,
    seed: Annotated[int | None, typer.Option("--seed", help="Same seed, same texts.")] = None,
    draw: Annotated[int, typer.Option("--draw", help="Write this many texts, drawn by weight, instead of the table.", min=0)] = 0,
    chat: Annotated[bool, typer.Option("--chat/--no-chat", help="Use the model's chat template, where it has one.")] = True,
    instruct: Annotated[bool, typer.Option("--instruct/--no-instruct", help="Tell a chat model the schema.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Draw weighted texts that follow the model given a constraint.

    Masking alone, as 'guided generate' does it, follows another law. The output says how far off the texts may be; 'guided methods' says
    what each method draws.
    """
    from .sample_cli import function_of, options_of, show

    constraint = _constraint(schema, regex, lark, gbnf, choice, whitespace)
    if prompt in (None, "-") and schema == "-":
        raise ConstraintError("the prompt and the schema cannot both come from the standard input")
    text = _read("-") if prompt is None or prompt == "-" else prompt
    options: dict[str, Any] = {**options_of(option or []), "max_tokens": max_tokens, "temperature": temperature, "seed": seed}
    options |= {name: function_of(source) for name, source in (("reward", reward), ("check", check)) if source is not None}
    loaded = _load(model, device, dtype)
    from .sampling import sample as run

    with _console().status("sampling"):
        result = run(loaded, text, constraint, method=method, particles=particles, chat=chat, instruct=instruct, **options)
    show(result, draw, as_json)


# ---------------------------------------------------------------- search
@_command("search")
def search(
    prompt: Annotated[str | None, typer.Argument(help="What to say to the model; '-' or nothing reads the standard input.")] = None,
    schema: SchemaOption = None,
    regex: RegexOption = None,
    lark: LarkOption = None,
    gbnf: GbnfOption = None,
    choice: ChoiceOption = None,
    whitespace: BlanksOption = "flexible",
    model: ModelOption = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    strategy: Annotated[str, typer.Option("--strategy", help="beam, best-of-n, ...: --list names them, with their fields.")] = "beam",
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="NAME=VALUE, a field of the strategy; repeat the option.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the strategies and their fields.")] = False,
    reward: Annotated[str | None, typer.Option("--reward", help="FILE.py:NAME, a function: what a text is worth.")] = None,
    reward_of: Annotated[
        str, typer.Option("--reward-of", help="What the function is given: the 'text', or the finished 'value' (a parsed object).")
    ] = "text",
    lexicon: Annotated[
        Path | None, typer.Option("--lexicon", help="Reward by words: a file with a word and its weight a line, or JSON.")
    ] = None,
    classifier: Annotated[str | None, typer.Option("--classifier", help="Reward by a sequence classifier: its folder or hub id.")] = None,
    label: Annotated[str, typer.Option("--label", help="The class of the classifier that is wanted: its number or name.")] = "1",
    scale: Annotated[float, typer.Option("--scale", help="The reward is multiplied by it.")] = 1.0,
    temperature: Annotated[float, typer.Option("--temperature", "-t", help="Above 0.")] = 1.0,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Tokens of the text, at most.")] = 256,
    forwards: Annotated[int | None, typer.Option("--forwards", help="Prefixes to ask the model about, at most.")] = None,
    tokens: Annotated[int | None, typer.Option("--tokens", help="Tokens to generate in the whole search, at most.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", help="Time of the search, at most.")] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Write the search tree: a page for a name that ends in .html, JSON otherwise.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Same seed, same text.")] = None,
    show_all: Annotated[bool, typer.Option("--all", "-a", help="List the other texts that were found, too.")] = False,
    chat: Annotated[bool, typer.Option("--chat/--no-chat", help="Use the model's chat template, where it has one.")] = True,
    instruct: Annotated[bool, typer.Option("--instruct/--no-instruct", help="Tell a chat model the schema.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Search for a text that scores well, under a constraint or free.

    The best text goes to the standard output. A search that its budget ends gives the best text so far, which fits the constraint all the
    same.
    """
    from .search_cli import limits, list_strategies, made, show, shown
    from .search_cli import reward_of as find_reward

    if listed:
        list_strategies()
        return
    constraint = _constraint(schema, regex, lark, gbnf, choice, whitespace)
    if prompt in (None, "-") and schema == "-":
        raise ConstraintError("the prompt and the schema cannot both come from the standard input")
    text = _read("-") if prompt is None or prompt == "-" else prompt
    budget = limits(forwards, tokens, seconds)
    loaded = _load(model, device, dtype)
    chosen = made(strategy, option or [], find_reward(loaded, reward, reward_of, lexicon, classifier, label, scale))
    options: dict[str, Any] = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed, "chat": chat, "instruct": instruct}
    from .api import generate as run

    with shown(_console(), f"searching ({strategy})") as progress:
        result = run(loaded, text, constraint, search=chosen, search_budget=budget, trace=trace, progress=progress, **options)
    show(result, _console(), as_json, show_all)
    if constraint is not None and result.finish_reason != "complete":
        raise typer.Exit(DIFFERS)


# ---------------------------------------------------------------- check
@_command("check")
def check(
    instance: Annotated[str, typer.Argument(help="File with the text; '-' is the standard input.")] = "-",
    text: Annotated[str | None, typer.Option("--text", help="The text itself, instead of a file.")] = None,
    schema: SchemaOption = None,
    regex: RegexOption = None,
    lark: LarkOption = None,
    gbnf: GbnfOption = None,
    choice: ChoiceOption = None,
    whitespace: BlanksOption = "flexible",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the exit code.")] = False,
) -> None:
    """Check whether a text fits; if not, say where and why.

    That is: where it leaves the language, and what was expected there. A line break at the file's end is ignored.

    Exit codes: 0 fits, 1 does not, 2 bad input.
    """
    from .explain import check as find

    constraint = _needed(_constraint(schema, regex, lark, gbnf, choice, whitespace, any_layout=True))
    if text is None and instance == "-" and schema == "-":
        raise ConstraintError("the text and the schema cannot both come from the standard input")
    data = (_read(instance) if text is None else text).encode()
    found = find(constraint, data)
    if found is not None and text is None and data.endswith(b"\n"):
        found = find(constraint, data.removesuffix(b"\n").removesuffix(b"\r"))
    if not quiet:
        typer.echo("fits" if found is None else f"does not fit: {found}")
    if found is not None:
        raise typer.Exit(DIFFERS)


# ---------------------------------------------------------------- mask
@_command("mask")
def mask(
    prefix: Annotated[str, typer.Argument(help="The text so far.")] = "",
    schema: SchemaOption = None,
    regex: RegexOption = None,
    lark: LarkOption = None,
    gbnf: GbnfOption = None,
    choice: ChoiceOption = None,
    whitespace: BlanksOption = "flexible",
    model: Annotated[str | None, typer.Option("--model", "-m", help="Rank by this model ('packaged', a folder, a hub id).")] = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    prompt: Annotated[str, typer.Option("--prompt", help="What the model is told before the text (with --model).")] = "",
    top: Annotated[int, typer.Option("--top", help="How many tokens to list.", min=0)] = 10,
    token: Annotated[list[str] | None, typer.Option("--token", help="Explain this token (an id, or its text); repeat the option.")] = None,
) -> None:
    """List the tokens that may follow a text, and explain others."""
    from .explain import expected, misfit

    constraint = _needed(_constraint(schema, regex, lark, gbnf, choice, whitespace))
    loaded = _load(model, device, dtype) if model is not None else None
    automaton = constraint.compile(loaded.vocabulary if loaded is not None else _packaged_vocabulary())
    state, found = misfit(automaton, prefix.encode())
    if found is not None:
        typer.echo(f"the text so far does not fit: {found}")
        raise typer.Exit(DIFFERS)
    started = time.perf_counter()
    row = automaton.mask(state)
    took = time.perf_counter() - started
    allowed = [token for token in range(automaton.vocabulary.size) if row[token >> 5] >> (token & 31) & 1]
    typer.echo(f"allowed: {len(allowed)} of {automaton.vocabulary.size} tokens (mask made in {took * 1e3:.2f} ms)")
    typer.echo(f"expected next: {' or '.join(expected(automaton, state))}")
    typer.echo(f"may end here: {'yes' if automaton.accepts(state) else 'no'}")
    typer.echo(f"forced text: {automaton.forced_bytes(state).decode('utf-8', 'backslashreplace')!r}")
    shortest = automaton.shortest_completion(state)
    text = automaton.vocabulary.decode(shortest).decode("utf-8", "backslashreplace")
    typer.echo(f"shortest completion: {text!r} ({len(shortest)} tokens)")
    _list_tokens(automaton, _ranked(loaded, allowed, prompt, prefix), top)
    for wanted in token or []:
        _explain_token(automaton, state, wanted)


def _packaged_vocabulary() -> Any:
    with _console().status("loading the tokenizer"):
        _quiet()
        from grammars import Vocabulary

        from .packaged import load_packaged_tokenizer

        return Vocabulary.from_tokenizer(load_packaged_tokenizer())


def _ranked(model: Model | None, allowed: list[int], prompt: str, prefix: str) -> list[tuple[int, float | None]]:
    """Allowed tokens with their probability under the model, best first; by id where there is none."""
    if model is None:
        return [(token, None) for token in allowed]
    import torch

    from .inputs import target_of
    from .prompts import prompt_ids

    ids = prompt_ids(model, prompt, target_of(None), chat=bool(prompt), instruct=False) + model.vocabulary.encode(prefix.encode())
    with torch.inference_mode():
        scores = model.model(input_ids=torch.tensor([ids], device=model.model.device)).logits[0, -1].double().softmax(-1).cpu()
    return sorted(((token, float(scores[token])) for token in allowed), key=lambda pair: -(pair[1] or 0.0))


def _shown(automaton: Automaton, token: int) -> str:
    if token in automaton.vocabulary.eos_token_ids:
        return "(end)"
    return repr(automaton.vocabulary.tokens[token].decode("utf-8", "backslashreplace"))


def _list_tokens(automaton: Automaton, ranked: list[tuple[int, float | None]], top: int) -> None:
    if top == 0:
        return
    scored = bool(ranked) and ranked[0][1] is not None
    if scored:
        kept = sum(score or 0.0 for _, score in ranked)
        typer.echo(f"mass that the mask keeps: {kept:.4g}")
    typer.echo("tokens by the model's probability:" if scored else "tokens by id:")
    for token, score in ranked[:top]:
        typer.echo(f"  {token:>7}  {_shown(automaton, token)}" + (f"  {score:.4g}" if score is not None else ""))
    if len(ranked) > top:
        typer.echo(f"  ... and {len(ranked) - top} more")


def _explain_token(automaton: Automaton, state: int, wanted: str) -> None:
    from .explain import why_blocked

    vocabulary = automaton.vocabulary
    if wanted.isascii() and wanted.isdigit():
        tokens = [int(wanted)]
    else:
        tokens = [i for i, data in enumerate(vocabulary.tokens) if data == wanted.encode()]
    if not tokens:
        typer.echo(f"token {wanted!r}: the vocabulary has no such token; it is written as {vocabulary.encode(wanted.encode())}")
    for token in tokens:
        name = _shown(automaton, token) if token < vocabulary.size else "(padding)"
        reason = why_blocked(automaton, state, token)
        typer.echo(f"token {token} {name}: " + ("allowed" if reason is None else f"blocked: {reason}"))


# ---------------------------------------------------------------- the rest
def _register() -> None:
    """The commands of other modules."""
    from .bench_cli import app as bench
    from .bench_scale_cli import register
    from .bench_search_cli import register as register_search
    from .bench_speculation_cli import register as register_speculation
    from .bench_speed_cli import register as register_speed
    from .choose_cli import choose
    from .explain_cli import explain
    from .fuzz_cli import fuzz
    from .methods_cli import methods

    register(bench)
    register_speed(bench)
    register_search(bench)
    register_speculation(bench)
    app.add_typer(bench, name="bench")
    _command("methods")(methods)
    _command("choose")(choose)
    _command("explain")(explain)
    _command("fuzz")(fuzz)


_register()


def _version(wanted: bool) -> None:
    if wanted:
        from . import __version__

        typer.echo(__version__)
        raise typer.Exit()


@app.callback()
def _root(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False) -> None:
    pass


def main() -> None:
    """The console script ``guided``."""
    app()
