"""Every example runs as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUICK = {"quickstart.py"}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, timeout=600)


NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES])
def test_an_example_runs(packaged_model: object, name: str) -> None:
    done = run(str(EXAMPLES / name))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_demo_command(packaged_model: object) -> None:
    schema = EXAMPLES / "person.json"
    command = ["-m", "guided", "generate", "--schema", str(schema), "--seed", "0", "--stream", "Ada Lovelace was born in London in 1815."]
    done = run(*command)
    assert done.returncode == 0, done.stderr
    jsonschema.validate(json.loads(done.stdout), json.loads(schema.read_text()))
    assert "tokens/s" in done.stderr
