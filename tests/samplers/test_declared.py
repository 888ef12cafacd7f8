"""The table of methods, read from the sources and from the loaded modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

from samplers import declared, registry


def test_what_is_read_is_what_is_loaded() -> None:
    assert [one for module in registry._MODULES for one in declared._of_module(module)], "none of them has to be loaded for it"
    assert declared.declared() == registry.methods()


@pytest.mark.parametrize(
    "source",
    [
        "@method(name(), law='exact', target='t', cost='c')\ndef f(): ...",
        "@method('n', law=LAW, target='t', cost='c')\ndef f(): ...",
        "method('n', law='exact', target='t', cost='c')(len)",
        "class C:\n    @method('n', law='exact', target='t', cost='c')\n    def f(self): ...",
        "@method('n', law='exact', target='t', cost='c', speed='s')\ndef f(): ...",
    ],
)
def test_what_cannot_be_read_is_loaded(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "_sources", lambda module: [(module, source)])
    with pytest.raises((ValueError, KeyError)):
        list(declared._of_module("samplers.sampling"))
    monkeypatch.setattr(registry, "methods", lambda: ["loaded"])
    assert declared.declared() == ["loaded"]


def test_what_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
NAME, OTHER = 'n', len('x')
COST: str = 'a' 'b'
@method(NAME, law='argmax', target='t', cost=COST)
@method('m', law='lossy', target=COST + ', ' + f'{NAME}!', cost='', use='x')
class C: ...
"""
    monkeypatch.setattr(declared, "_sources", lambda module: [(module, source)])
    expected = [
        registry.Method("n", "samplers", "argmax", "t", "ab", "", "samplers.some.C"),
        registry.Method("m", "samplers", "lossy", "ab, n!", "", "", "x"),
    ]
    assert list(declared._of_module("samplers.some")) == expected


def test_the_command_loads_no_torch() -> None:
    code = (
        "import sys\nfrom guided.cli import app\n"
        "try:\n    app(['methods', '--json'])\nexcept SystemExit:\n    pass\n"
        "assert not {'torch', 'transformers', 'numba'} & set(sys.modules), 'loaded'"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-1000:]
    assert '"local masking"' in run.stdout
