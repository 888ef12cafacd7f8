"""The command line, as it is called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

import guided
from guided.cli import app

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a", "b"]}
TEXT = json.dumps(SCHEMA)


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def call(*arguments: str, stdin: str = "") -> Done:
    """The command in this process."""
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, list(arguments), input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def spawn(*arguments: str, stdin: str = "") -> Done:
    """The command as a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *arguments], input=stdin, capture_output=True, text=True, env=environment, timeout=300)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def schema_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("cli") / "schema.json"
    path.write_text(TEXT)
    return str(path)


# ---------------------------------------------------------------- check
@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        (["--schema", TEXT], '{"a": 1, "b": "x"}', 0),
        (["--schema", TEXT], '{\n    "b": "y",\n    "a": 1\n}\n', 0),
        (["--schema", TEXT], '{"a": "1", "b": "x"}', 1),
        (["--schema", TEXT], '{"a": 1}', 1),
        (["--regex", "[a-c]+"], "abc", 0),
        (["--regex", "[a-c]+"], "abd", 1),
        (["--choice", "yes", "--choice", "no"], "no\n", 0),
        (["--choice", "yes", "--choice", "no"], "maybe", 1),
    ],
)
def test_check(arguments: list[str], stdin: str, code: int) -> None:
    done = call("check", *arguments, stdin=stdin)
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith("fits" if code == 0 else "does not fit: byte ")


def test_check_says_where_and_what(schema_file: str, tmp_path: Path) -> None:
    instance = tmp_path / "instance.json"
    instance.write_text('{\n  "a": 1,\n  "b": "z"\n}\n')
    done = call("check", "--schema", schema_file, str(instance))
    assert done.returncode == 1
    assert "byte 20, line 3, column 9: found 'z', expected '\\' or 'x' or 'y'" in done.stdout
    assert call("check", "--schema", schema_file, "--text", "{}", "--quiet").stdout == ""


def test_grammars_from_files(tmp_path: Path) -> None:
    lark, gbnf = tmp_path / "a.lark", tmp_path / "a.gbnf"
    lark.write_text('start: "a" start "b" | "c"\n')
    gbnf.write_text('root ::= "a" root "b" | "c"\n')
    for option, path in (("--lark", lark), ("--gbnf", gbnf)):
        assert call("check", option, str(path), "--text", "aacbb").returncode == 0
        assert call("check", option, str(path), "--text", "aacb").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "--text", "x"], "give a constraint"),
        (["check", "--schema", "{", "--text", "x"], "not JSON"),
        (["check", "--schema", "no-such-file.json", "--text", "x"], "no-such-file.json"),
        (["check", "--schema", '{"minimum": "x"}', "--text", "1"], "/minimum"),
        (["check", "--schema", '{"type": "string", "contentSchema": 5, "$dynamicRef": "#x"}', "--text", "1"], "$dynamicRef"),
        (["check", "--regex", "(", "--text", "x"], "position"),
        (["check", "--regex", r"(a)\1", "--text", "aa"], "position"),
        (["check", "--regex", "a", "--choice", "b", "--text", "x"], "exclude each other"),
        (["check", "--regex", "a", "no-such-file"], "no-such-file"),
        (["generate", "hello", "--schema", '{"minimum": "x"}'], "/minimum"),
        (["generate", "hello", "--regex", "a", "--model", "./no-such-model"], "cannot be loaded"),
        (["generate", "hello", "--schema", TEXT, "--whitespace", "wide"], "whitespace"),
        (["generate", "hello", "--stream", "--n", "2"], "--stream"),
        (["generate", "hello", "--no-such-option"], "no-such-option"),
        (["no-such-command"], "no-such-command"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(arguments: list[str], message: str) -> None:
    done = call(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr and done.stdout == ""


# ---------------------------------------------------------------- generate
def test_generate(model_folder: Path, schema_file: str) -> None:
    arguments = ["generate", "hello", "--schema", schema_file, "--model", str(model_folder), "--seed", "3", "--max-tokens", "50"]
    done = call(*arguments)
    assert done.returncode == 0, done.stderr
    jsonschema.validate(json.loads(done.stdout), SCHEMA)
    assert "tokens/s" in done.stderr and "seed 3" in done.stderr
    streamed = call(*arguments[:1], "-", *arguments[2:], "--stream", "--quiet", stdin="hello")
    assert streamed.stdout == done.stdout and streamed.stderr.strip() == ""


def test_generate_several(model_folder: Path) -> None:
    done = call("generate", "x", "--schema", TEXT, "--model", str(model_folder), "--n", "3", "--seed", "1", "--max-tokens", "50", "-q")
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    for line in lines:
        jsonschema.validate(json.loads(line), SCHEMA)


def test_generate_cut_is_exit_code_1(model_folder: Path) -> None:
    arguments = ["generate", "x", "--regex", "(ab){30}", "--model", str(model_folder), "--max-tokens", "5"]
    assert call(*arguments, "--no-budget").returncode == 1
    short = call(*arguments)
    assert short.returncode == 2 and "allow at least" in short.stderr


# ---------------------------------------------------------------- mask, methods, the rest
def test_mask(model_folder: Path) -> None:
    choices = ["--choice", "the", "--choice", "this", "--model", str(model_folder)]
    done = call("mask", "th", *choices, "--token", "e", "--token", "q", "--token", "2")
    assert done.returncode == 0, done.stderr
    assert "expected next: 'e' or 'i'" in done.stdout and "may end here: no" in done.stdout
    assert "'e': allowed" in done.stdout and "'q': blocked: its only byte is 'q', expected 'e' or 'i'" in done.stdout
    assert "(end): blocked: the text may not end here" in done.stdout
    assert "mass that the mask keeps" in done.stdout
    outside = call("mask", "tx", "--choice", "the", "--model", str(model_folder))
    assert outside.returncode == 1 and "byte 1" in outside.stdout


def test_mask_without_a_model(smollm2_tokenizer: object) -> None:
    done = call("mask", '{"a": 1', "--schema", TEXT)
    assert done.returncode == 0, done.stderr
    assert "tokens by id" in done.stdout and 'shortest completion: \',"b":"x"}\'' in done.stdout


def test_methods() -> None:
    rows = json.loads(call("methods", "--json").stdout)
    assert [row["name"] for row in rows] == [m.name for m in guided.methods()]
    assert {"name", "law", "target", "cost", "paper", "package", "use"} == set(rows[0])
    table = call("methods").stdout
    assert all(word in table for word in ("local masking", "argmax", "law"))


def test_version_and_help() -> None:
    assert call("--version").stdout.strip() == guided.__version__
    for command in ([], ["generate"], ["check"], ["mask"], ["methods"]):
        done = call(*command, "--help")
        assert done.returncode == 0 and "Usage" in done.stdout


SCRIPT = """
import sys
from guided.cli import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    assert end.code == 0, end
assert "torch" not in sys.modules
"""


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--schema", TEXT, "--text", '{"a": 1, "b": "x"}']], ids=["help", "check"])
def test_help_and_check_import_no_torch(arguments: list[str]) -> None:
    done = spawn("-c", SCRIPT, *arguments)
    assert done.returncode == 0, done.stderr


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("guided.explain.check", interrupt)
    done = call("check", "--regex", "a", "--text", "a")
    assert done.returncode == 130 and done.stderr == "interrupted\n" and done.stdout == ""


def test_the_reader_goes_away() -> None:
    pipe = subprocess.run(
        ["bash", "-c", f'{sys.executable} -m guided methods --json | true; echo "${{PIPESTATUS[0]}}"'],
        capture_output=True, text=True, cwd=ROOT, timeout=300,
    )  # fmt: skip
    assert pipe.stderr == "" and pipe.stdout.strip() in ("0", "1")


def test_as_a_process() -> None:
    done = spawn("-m", "guided", "check", "--regex", "é+", stdin="éx\n")
    assert done.returncode == 1 and "byte 2, line 1, column 2" in done.stdout
    wrong = spawn("-m", "guided", "check", "--schema", '{"minimum": "x"}', "--text", "1")
    assert wrong.returncode == 2 and "/minimum" in wrong.stderr and "Traceback" not in wrong.stderr
