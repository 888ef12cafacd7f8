"""Formats against the official test suite, and against independent oracles of the standard library."""

from __future__ import annotations

import calendar
import gzip
import ipaddress
import json
import random
import re
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.formats import FORMATS, format_language
from grammars.regex.charset import CharSet
from grammars.regex.expr import Pool
from grammars.strings import ANY_ESCAPES, JsonEncoder
from tests.spelling import spell

NAMES = sorted(FORMATS)
# Valid texts that are refused, because deciding about their like takes more than an automaton (see the package's docstring).
REFUSED = {
    "hostname": re.compile(r"(?i)(^|\.)xn--"),
    "idn-hostname": re.compile("(?i)(^|\\.)xn--|(?<!\u094d)\u200c"),
    "regex": re.compile(r"\\k"),
}


@pytest.fixture(scope="module")
def pool() -> Pool:
    return Pool()


def language(pool: Pool, name: str) -> int:
    expr = format_language(pool, name, ANY_ESCAPES)
    assert expr is not None
    return expr


def accepts(pool: Pool, name: str, text: str, seed: int = 0) -> bool:
    return pool.matches(language(pool, name), spell(text, seed))


def suite(data_dir: Path) -> Iterator[tuple[str, str, bool]]:
    with gzip.open(data_dir / "json_schema_test_suite.jsonl.gz", "rt") as lines:
        for line in lines:
            group = json.loads(line)
            schema = group["schema"]
            if "format/" in group["file"] and isinstance(schema, dict):
                for test in group["tests"]:
                    if isinstance(test["data"], str):
                        yield schema.get("format", ""), test["data"], test["valid"]


@pytest.mark.parametrize("name", NAMES)
def test_official_suite(pool: Pool, data_dir: Path, name: str) -> None:
    cases = {(text, valid) for found, text, valid in suite(data_dir) if found == name}
    assert cases
    wrong = []
    for i, (text, valid) in enumerate(sorted(cases)):
        refused = name in REFUSED and REFUSED[name].search(text)
        if accepts(pool, name, text, i) != (valid and not refused):
            wrong.append((text, valid))
    assert not wrong


def test_unknown_formats_have_no_language(pool: Pool) -> None:
    assert format_language(pool, "color", ANY_ESCAPES) is None


def test_a_format_is_built_once_a_pool_and_encoder(pool: Pool) -> None:
    assert format_language(pool, "date", ANY_ESCAPES) == format_language(pool, "date", JsonEncoder("any"))
    assert format_language(pool, "date", JsonEncoder("minimal")) != format_language(pool, "date", ANY_ESCAPES)


@pytest.mark.parametrize("name", NAMES)
def test_members_exist_and_have_no_dead_ends(pool: Pool, name: str) -> None:
    encoder = JsonEncoder("minimal")
    start = format_language(pool, name, encoder)
    assert start is not None
    rng = random.Random(name)
    for _ in range(3):
        state = start
        for _ in range(rng.randrange(1, 25)):
            moves = pool.transitions(state)
            if not moves:
                break
            state = rng.choice(moves)[1]
        assert not pool.is_empty(state)
        assert pool.shortest(state) is not None


def test_the_calendar_is_exact(pool: Pool) -> None:
    expr = language(pool, "date")
    for year in (0, 4, 100, 400, 1900, 1999, 2000, 2023, 2024, 2100, 9996):
        for month in range(14):
            for day in (0, 1, 28, 29, 30, 31, 32):
                last = calendar.monthrange(year or 400, month)[1] if 1 <= month <= 12 else 0
                assert pool.matches(expr, b"%04d-%02d-%02d" % (year, month, day)) == (1 <= day <= last), (year, month, day)


def test_leap_seconds_are_at_midnight_utc(pool: Pool) -> None:
    expr, rng = language(pool, "time"), random.Random(3)
    for _ in range(1500):
        sign, offset = rng.choice([1, -1]), timedelta(hours=rng.randrange(24), minutes=rng.choice([0, 0, 1, 30, 59, rng.randrange(60)]))
        local = datetime(2000, 1, 2, 23, 59) + sign * offset
        if rng.random() < 0.5:
            local += timedelta(minutes=rng.choice([1, -1, 60, -60, 59, 720]))
        at_midnight = (local - sign * offset).strftime("%H:%M") == "23:59"
        hours, minutes = divmod(int(offset.total_seconds()) // 60, 60)
        text = f"{local:%H:%M}:60{rng.choice(['', '.5'])}{'+' if sign > 0 else '-'}{hours:02}:{minutes:02}"
        assert pool.matches(expr, text.encode()) == at_midnight, text


def mutate(text: str, rng: random.Random, alphabet: str) -> str:
    for _ in range(rng.randrange(3)):
        i = rng.randrange(len(text) + 1)
        text = text[:i] + rng.choice([*alphabet, ""]) + text[i + rng.randrange(2) :]
    return text


@settings(derandomize=True, max_examples=400)
@given(number=st.integers(0, 2**128 - 1), seed=st.integers(0, 2**32))
def test_ip_addresses_against_the_standard_library(pool: Pool, number: int, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(rng.randrange(6)):  # runs of zeros
        number &= ~(0xFFFF << 16 * rng.randrange(8))
    address = ipaddress.IPv6Address(number)
    for text in (
        str(address),
        address.exploded,
        str(ipaddress.IPv4Address(number & 0xFFFFFFFF)),
        f"::{ipaddress.IPv4Address(number >> 96)}",
    ):
        probe = mutate(text, rng, "0123456789abcdefF:.")
        for name, kind in (("ipv4", ipaddress.IPv4Address), ("ipv6", ipaddress.IPv6Address)):
            try:
                valid = bool(kind(probe) or True)
            except ValueError:
                valid = False
            assert accepts(pool, name, probe, seed) == valid, (name, probe)


@settings(derandomize=True, max_examples=150)
@given(value=st.uuids(), seed=st.integers(0, 2**32))
def test_uuids(pool: Pool, value: uuid.UUID, seed: int) -> None:
    probe = mutate(str(value), random.Random(seed), "0aF-g")
    valid = bool(re.fullmatch("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", probe))
    assert accepts(pool, "uuid", probe, seed) == valid


@pytest.mark.parametrize(
    ("length", "valid"),
    [(63, True), (64, False)],
)
def test_labels_of_host_names_are_limited(pool: Pool, length: int, valid: bool) -> None:
    assert accepts(pool, "hostname", "a" * length) == valid
    assert accepts(pool, "hostname", "b." + "a" * length + ".c") == valid


def test_host_names_are_limited(pool: Pool) -> None:
    name = ".".join(["a" * 49] * 5)  # 249 characters
    assert accepts(pool, "hostname", name + ".abc")
    assert not accepts(pool, "hostname", name + ".abcd")


@settings(derandomize=True, max_examples=200)
@given(seed=st.integers(0, 2**32))
def test_random_uris_are_taken_apart_as_written(pool: Pool, seed: int) -> None:
    rng = random.Random(seed)

    def some(alphabet: str, most: int = 6) -> str:
        return "".join(rng.choice(alphabet) for _ in range(rng.randrange(1, most)))

    host = rng.choice([some("abc.-09"), "[::1]", "[1:2::3.4.5.6]", "127.0.0.1", "a%20b"])
    text = f"{some('abc')}://{rng.choice(['', some('ab:') + '@'])}{host}{rng.choice(['', ':80', ':'])}"
    text += rng.choice(["", "/", "/" + some("ab/:@%41~")]).replace("%", "%4")[:12]
    text += rng.choice(["", "?" + some("ab/?:&=")]) + rng.choice(["", "#" + some("ab/?:")])
    valid = not re.search("%(?![0-9A-Fa-f]{2})", text)
    assert accepts(pool, "uri", text, seed) == valid, text
    if valid:
        assert urlsplit(text).scheme
        assert not accepts(pool, "uri", text + rng.choice(' \\^`{|}<>"\né'), seed)


PATTERN_PARTS = [
    *(
        "a",
        "é",
        ".",
        "-",
        "/",
        "\\d",
        "\\.",
        "\\u0041",
        "\\u{1F600}",
        "\\p{Lu}",
        "\\cA",
        "\\x41",
        "[a-z]",
        "[^]",
        "[]",
        "[-a\\]]",
        "[\\w-]",
        "[z-a]",
    ),
    *(
        "(",
        "(?:",
        "(?=",
        "(?!",
        "(?<=",
        ")",
        "|",
        "^",
        "$",
        "\\b",
        "*",
        "+?",
        "?",
        "{2}",
        "{2,}",
        "{2,13}",
        "{3,2}",
        "]",
        "{",
        "}",
        "\\",
        "\\a",
        "\\1",
    ),
]


@settings(derandomize=True, max_examples=400)
@given(parts=st.lists(st.sampled_from(PATTERN_PARTS), max_size=8), seed=st.integers(0, 2**32))
def test_no_invalid_pattern_is_accepted(pool: Pool, parts: list[str], seed: int) -> None:
    text = "".join(parts)
    if accepts(pool, "regex", text, seed):
        bare = re.sub(r"\\.", "", text)
        assert bare.count("(") == bare.count(")") and not re.search(r"\\[a1]|z-a|\{3,2\}", text)
        as_python = re.sub(r"\[\^\]", ".", text).replace("[]", "a").replace("\\p{Lu}", "A").replace("\\u{1F600}", "A").replace("\\cA", "A")
        try:
            re.compile(as_python)
        except re.error as error:
            assert "look-behind requires fixed-width" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "^[a-z]+(?:-\\d{2,4})*$",
        "(a|b(c|d(e)))",
        "\\p{L}+",
        '[^"\\\\]*',
        "^\\S+@\\S+\\.\\w{2,}$",
        "(?=.*\\d).{8,}",
        "(?<year>\\d{4})-(?:(x|y))",
        "a\\/b",
        "\\0",
    ],
)
def test_usual_patterns_are_accepted(pool: Pool, text: str) -> None:
    assert accepts(pool, "regex", text)


def test_formats_can_be_written_without_some_characters() -> None:
    pool = Pool(writable=CharSet([(0x20, 0x7E)]))
    expr = format_language(pool, "iri", ANY_ESCAPES)
    assert expr is not None and pool.matches(expr, b"x:\\u00e9") and not pool.matches(expr, "x:é".encode())
