"""The public suites of Rust's regex crate and of RE2, whole, as statements about languages.

A reported match span says that ``.{n}R.{m}`` matches the whole haystack, where n and m are the characters
around it; an empty list of matches says that the pattern occurs nowhere.
"""

from __future__ import annotations

import collections
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from grammars.errors import LimitError, RegexError
from grammars.regex import ast
from grammars.regex.charset import ANY
from grammars.regex.expr import Pool
from grammars.regex.lower import to_expr
from grammars.regex.syntax import Pattern, parse

REFUSALS = {
    "\\C matches a raw byte, which is not supported in text",
    "without the u flag this matches raw bytes, which is not supported in text",
}


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def _refused(error: RegexError) -> str:
    assert error.reason in REFUSALS, f"{error}"
    return "refused: " + error.reason


def test_re2_fullmatch(data_dir: Path) -> None:
    counts: collections.Counter[str] = collections.Counter()
    wrong, regex, expr, pool = [], None, None, Pool()
    for case in _lines(data_dir / "regex_re2_fullmatch.jsonl.gz"):
        if case["regex"] != regex:
            regex, pool = case["regex"], Pool()
            try:
                expr = to_expr(regex, pool, dialect="rust")
            except RegexError as error:
                expr, reason = None, _refused(error)
        if expr is None:
            counts[reason] += 1
        elif pool.matches(expr, case["string"].encode()) != case["fullmatch"]:
            wrong.append(case)
        else:
            counts["right"] += 1
    print(dict(counts))
    assert not wrong
    assert counts["right"] >= 1800


def _bytes(case: dict[str, Any]) -> bytes:
    haystack: str = case["haystack"]
    if not case.get("unescape"):
        return haystack.encode()
    simple = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}
    parts = re.split(r"(\\x[0-9A-Fa-f]{2}|\\.)", haystack)
    return b"".join(p.encode() if not p.startswith("\\") else bytes.fromhex(p[2:]) if p.startswith("\\x") else simple[p[1]] for p in parts)


def _spans(case: dict[str, Any]) -> list[tuple[int, int]]:
    """The whole-match spans, without groups."""
    out = []
    for match in case["matches"]:
        span = match
        while isinstance(span, dict):
            span = span.get("span", span.get("spans", span.get("groups")))
        while isinstance(span[0], list):
            span = span[0]
        out.append((span[0], span[1]))
    return out


def _any(count: int) -> ast.Node:
    return ast.Repeat(ast.Chars(ANY), count, count)


def _judge(case: dict[str, Any]) -> str:
    """``right``, ``WRONG ...``, or the reason why the case says nothing about languages."""
    if case["id"].startswith("regex-lite/"):
        return "skipped: written for an engine whose classes are ASCII only"
    flags = "i" * bool(case.get("case-insensitive")) + "-u" * (case.get("unicode") is False)
    try:
        tree = parse(case["regex"], "rust", flags)
    except RegexError as error:
        return "right" if case.get("compiles") is False else _refused(error)
    if case.get("compiles") is False:
        return "WRONG: compiled"
    for key in ("bounds", "line-terminator"):
        if key in case:
            return f"skipped: {key}"
    data = _bytes(case)
    try:
        data.decode()
    except UnicodeDecodeError:
        return "skipped: haystack is not text"
    pool, spans = Pool(), _spans(case)
    verdicts = 0
    for start, end in spans:
        try:
            before, after = len(data[:start].decode()), len(data[end:].decode())
        except UnicodeDecodeError:
            continue
        node = ast.sequence([_any(before), tree.node, _any(after)])
        if not pool.matches(to_expr(Pattern(node), pool), data):
            return f"WRONG: {start}..{end} not found"
        verdicts += 1
    if not spans:
        anchored = ast.sequence([ast.START, tree.node]) if case.get("anchored") else tree.node
        if pool.matches(to_expr(Pattern(anchored), pool, search=True), data):
            return "WRONG: found"
        verdicts += 1
    return "right" if verdicts else "skipped: spans are within characters"


def test_rust_suite(data_dir: Path) -> None:
    counts: collections.Counter[str] = collections.Counter()
    wrong = []
    for case in _lines(data_dir / "regex_rust.jsonl.gz"):
        try:
            verdict = _judge(case)
        except LimitError as error:
            verdict = f"refused: {error.limit}"
        counts[verdict] += 1
        if verdict.startswith("WRONG"):
            wrong.append((case, verdict))
    print(dict(counts))
    assert not wrong
    assert counts["right"] >= 1040
