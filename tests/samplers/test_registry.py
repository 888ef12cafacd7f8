"""The table of methods."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import get_args

import pytest

import samplers
from samplers.registry import Law, method, methods


def test_every_method_is_complete() -> None:
    table = methods()
    names = [m.name for m in table]
    assert {"local masking", "token budget", "greedy decoding", "temperature sampling", "top-k sampling", "top-p sampling"} <= set(names)
    assert len(names) == len(set(names))
    for m in table:
        assert m.law in get_args(Law) and m.target and m.cost and m.use
        importlib.import_module(m.package)


def test_names_of_listed_systems_are_spelt_as_in_the_list(data_dir: Path) -> None:
    lines = (data_dir.parent / "systems.tsv").read_text().splitlines()[1:]
    listed = {name.casefold(): name for name in (line.split("\t")[0] for line in lines)}
    for m in methods():
        assert listed.get(m.name.casefold(), m.name) == m.name


def test_a_name_is_taken_once_and_a_law_is_known() -> None:
    methods()
    with pytest.raises(ValueError, match="registered already"):
        method("local masking", law="exact", target="t", cost="c")(lambda: None)
    with pytest.raises(ValueError, match="law must be"):
        method("another", law="roughly", target="t", cost="c")(lambda: None)  # type: ignore[arg-type]
    assert "another" not in {m.name for m in methods()}


def test_public_names() -> None:
    for name in samplers.__all__:
        assert getattr(samplers, name) is not None
    with pytest.raises(AttributeError):
        samplers.nothing_of_this_name
