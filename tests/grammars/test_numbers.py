"""Numbers: the automaton takes exactly the spellings of the members, and every state can be completed."""

from __future__ import annotations

import heapq
import random
import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.errors import ConstraintError
from grammars.numbers import ANY_NUMBER, INTEGERS, NumberSet, exact
from grammars.regex.expr import Pool

JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
HUGE = re.compile("[eE][+-]?0*[1-9][0-9]{2}")
SEEDS = st.integers(0, 2**32)

small = st.integers(-120, 120)
decimals = st.builds(lambda n, k: Fraction(n) / 10**k, st.integers(-2500, 2500), st.integers(-2, 4))
bounds = st.one_of(small.map(Fraction), decimals)
steps = st.one_of(
    st.integers(1, 12).map(Fraction),
    st.sampled_from(["0.01", "0.5", "2.5", "0.25", "100", "0.3", "20", "60", "0.125", "1000", "7", "35", "0.07"]).map(Fraction),
)


@st.composite
def number_sets(draw: st.DrawFn) -> NumberSet:
    lower, upper = draw(st.one_of(st.none(), bounds)), draw(st.one_of(st.none(), bounds))
    if lower is not None and upper is not None and lower > upper:
        lower, upper = upper, lower
    kinds = [draw(st.booleans()), draw(st.booleans())]
    return NumberSet.of(
        integer=draw(st.sampled_from([False, False, True])),
        minimum=lower if kinds[0] else None,
        exclusive_minimum=None if kinds[0] else lower,
        maximum=upper if kinds[1] else None,
        exclusive_maximum=None if kinds[1] else upper,
        multiple_of=draw(st.one_of(st.just([]), st.lists(steps, max_size=2))),
        not_multiple_of=draw(st.one_of(st.just([]), st.just([]), st.lists(steps, max_size=2))),
        excluded=draw(st.one_of(st.just([]), st.lists(bounds, max_size=3))),
    )


def plain(x: Fraction) -> str:
    """The shortest spelling without exponent."""
    places = 0
    while (x * 10**places).denominator != 1:
        places += 1
    digits = str(abs(int(x * 10**places))).rjust(places + 1, "0")
    text = digits[: len(digits) - places] + ("." + digits[len(digits) - places :] if places else "")
    return ("-" if x < 0 else "") + text


def respell(x: Fraction, rng: random.Random) -> str:
    """The number in a random JSON spelling."""
    shift = rng.choice([0, 0, rng.randrange(-6, 7)])
    text = plain(x / Fraction(10) ** shift)
    if rng.random() < 0.4:
        text += ("" if "." in text else ".") + "0" * rng.randrange(1, 4)
    if x == 0 and rng.random() < 0.5 and not text.startswith("-"):
        text = "-" + text
    if shift or rng.random() < 0.3:
        sign = "-" if shift < 0 else rng.choice(["", "+"] if shift else ["", "+", "-"])
        text += rng.choice("eE") + sign + "0" * rng.randrange(3) + str(abs(shift))
    return text


def value_of(text: str) -> Fraction:
    return Fraction(Decimal(text))


def near(numbers: NumberSet, rng: random.Random) -> Fraction:
    """A number that is likely to be a member or just not to be one."""
    anchors = [x for x in (numbers.lower, numbers.upper, *numbers.excluded) if x is not None] or [Fraction(0)]
    unit = rng.choice([*([numbers.step] if numbers.step else []), *numbers.not_multiple_of, Fraction(1), Fraction(1, 100)])
    anchor = rng.choice(anchors)
    if rng.random() < 0.7:
        anchor = round(anchor / unit) * unit
    return anchor + unit * rng.randrange(-5, 6) * rng.choice([1, 1, 10, 1000])


@pytest.fixture(scope="module")
def pool() -> Pool:
    return Pool()


@settings(derandomize=True, max_examples=250, deadline=None)
@given(numbers=number_sets(), seed=SEEDS)
def test_spellings_of_numbers_near_the_edges(pool: Pool, numbers: NumberSet, seed: int) -> None:
    rng = random.Random(seed)
    expr, without = numbers.to_expr(pool), numbers.to_expr(pool, exponents=False)
    for _ in range(25):
        x = near(numbers, rng)
        text = respell(x, rng)
        assert value_of(text) == x
        assert pool.matches(expr, text.encode()) == numbers.contains(x), (numbers, text)
        assert pool.matches(without, text.encode()) == (numbers.contains(x) and "e" not in text.lower()), (numbers, text)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(numbers=number_sets(), texts=st.lists(st.text("0123456789012345678900-+.eE", max_size=9), max_size=20))
def test_arbitrary_texts(pool: Pool, numbers: NumberSet, texts: list[str]) -> None:
    expr = numbers.to_expr(pool)
    for text in texts:
        if HUGE.search(text):  # a test of its own, below
            continue
        expected = bool(JSON_NUMBER.fullmatch(text)) and numbers.contains(value_of(text))
        assert pool.matches(expr, text.encode()) == expected, (numbers, text)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(numbers=number_sets(), exponents=st.booleans(), seed=SEEDS)
def test_random_walks_meet_no_dead_end_and_spell_members(pool: Pool, numbers: NumberSet, exponents: bool, seed: int) -> None:
    rng = random.Random(seed)
    expr = numbers.to_expr(pool, exponents=exponents)
    assert (expr == pool.EMPTY) == numbers.is_empty()
    for _ in range(4 if expr != pool.EMPTY else 0):
        state, text = expr, ""
        for _ in range(rng.randrange(1, 14)):
            moves = pool.raw(state)
            assert moves or pool.nullable(state), (numbers, text)
            if not moves:
                break
            mask, state = rng.choice(moves)
            text += chr(rng.choice([b for b in range(256) if mask >> b & 1]))
        completion = finish(pool, state)
        assert completion is not None, (numbers, text)
        whole = text + completion
        assert JSON_NUMBER.fullmatch(whole)
        if not HUGE.search(whole):
            assert numbers.contains(value_of(whole)), (numbers, whole)


def finish(pool: Pool, state: int) -> str | None:
    """A completion; exponents are tried early because they have few states."""
    seen, heap = {state}, [(0, "", state)]
    for _ in range(20_000):
        if not heap:
            return None
        _, text, current = heapq.heappop(heap)
        if pool.nullable(current):
            return text
        for mask, target in pool.raw(current):
            if target not in seen:
                seen.add(target)
                longer = text + chr((mask & -mask).bit_length() - 1)
                heapq.heappush(heap, (len(longer) + 3 * ("e" not in longer.lower()), longer, target))
    return None


@settings(derandomize=True, max_examples=200)
@given(a=number_sets(), b=number_sets(), seed=SEEDS)
def test_intersection(a: NumberSet, b: NumberSet, seed: int) -> None:
    rng, both = random.Random(seed), a.intersect(b)
    for _ in range(20):
        x = near(rng.choice([a, b, both]), rng)
        assert both.contains(x) == (a.contains(x) and b.contains(x))


@settings(derandomize=True, max_examples=300)
@given(numbers=number_sets())
def test_an_empty_set_has_no_member_nearby(numbers: NumberSet) -> None:
    if numbers.lower is None or numbers.upper is None or not numbers.step or numbers.upper - numbers.lower > 5000 * numbers.step:
        return
    first, last = int(numbers.lower / numbers.step) - 1, int(numbers.upper / numbers.step) + 1
    assert numbers.is_empty() != any(numbers.contains(numbers.step * k) for k in range(first, last + 1))


def walk(pool: Pool, expr: int, depth: int) -> set[int]:
    """States that digit strings up to a length visit."""
    found, level = {expr}, {expr}
    for _ in range(depth):
        level = {target for state in level for mask, target in pool.transitions(state) if mask & sum(1 << c for c in b"0123456789")}
        found |= level
    return found


@pytest.mark.parametrize(
    ("numbers", "most"),
    [
        (ANY_NUMBER, 4),
        (INTEGERS, 20),
        (NumberSet.of(minimum=0), 4),
        (NumberSet.of(integer=True, minimum=0, maximum=100), 50),
        (NumberSet.of(minimum=-90, maximum=90), 120),
        (NumberSet.of(integer=True, maximum=2**53), 300),
        (NumberSet.of(multiple_of=0.01), 30),
        (NumberSet.of(multiple_of=1000), 40),
    ],
)
def test_digits_visit_few_states(pool: Pool, numbers: NumberSet, most: int) -> None:
    assert len(walk(pool, numbers.to_expr(pool), 16)) <= most
    assert len(walk(pool, numbers.to_expr(pool, exponents=False), 16)) <= min(most, 60)


def test_unbounded_numbers_are_a_handful_of_states(pool: Pool) -> None:
    seen, todo = set(), [ANY_NUMBER.to_expr(pool)]
    while todo:
        state = todo.pop()
        if state not in seen:
            seen.add(state)
            todo += [target for _, target in pool.transitions(state)]
    assert len(seen) <= 14


LONG = "1" + "0" * 1000


@pytest.mark.parametrize(
    ("numbers", "text", "member"),
    [
        (INTEGERS, LONG, True),
        (INTEGERS, LONG + ".0", True),
        (INTEGERS, LONG + ".5", False),
        (INTEGERS, "1e1000", True),
        (INTEGERS, "1.5e1", True),
        (INTEGERS, "1.25e1", False),
        (INTEGERS, "120e-1", True),
        (INTEGERS, "120e-2", False),
        (INTEGERS, "0e-5", True),
        (INTEGERS, "-0.0", True),
        (NumberSet.of(minimum=5), LONG, True),
        (NumberSet.of(maximum=5), LONG, False),
        (NumberSet.of(maximum=5), "-" + LONG, True),
        (NumberSet.of(exclusive_minimum=0), "0." + "0" * 1000 + "1", True),
        (NumberSet.of(exclusive_minimum=0), "0e5", False),
        (NumberSet.of(multiple_of=3), "1" * 999, True),
        (NumberSet.of(multiple_of=3), "1" * 1000, False),
        (NumberSet.of(minimum=1, maximum=1), "0.1e1", True),
        (NumberSet.of(minimum=1, maximum=1), "10E-01", True),
        (NumberSet.of(minimum=1, maximum=1), "01", False),
        (NumberSet.of(integer=True, maximum=93, excluded=[57]), "0.53E02", True),
        (NumberSet.of(integer=True, maximum=93, excluded=[57]), "5.70E01", False),
        (NumberSet.of(multiple_of=3, excluded=[3]), "3", False),
        (NumberSet.of(minimum=1e308), "1e308", True),
        (NumberSet.of(minimum=1e308), "9e307", False),
        (NumberSet.of(maximum=0.1), "0.1", True),
        (NumberSet.of(maximum=0.1), "0.1000000000000000055", False),
    ],
)
def test_single_spellings(pool: Pool, numbers: NumberSet, text: str, member: bool) -> None:
    assert pool.matches(numbers.to_expr(pool), text.encode()) == member


@pytest.mark.parametrize(
    "numbers",
    [
        NumberSet.of(minimum=2, maximum=1),
        NumberSet.of(minimum=1, exclusive_maximum=1),
        NumberSet.of(integer=True, exclusive_minimum=1, exclusive_maximum=2),
        NumberSet.of(integer=True, not_multiple_of=1),
        NumberSet.of(integer=True, not_multiple_of=[1, 10**12 + 39]),
        NumberSet.of(multiple_of=6, not_multiple_of=3),
        NumberSet.of(minimum=3, maximum=3, excluded=[3]),
        NumberSet.of(integer=True, minimum=1, maximum=3, excluded=[1, 2, 3]),
        NumberSet.of(multiple_of=7, minimum=8, maximum=13),
    ],
)
def test_empty_sets(pool: Pool, numbers: NumberSet) -> None:
    assert numbers.is_empty()
    assert numbers.to_expr(pool) == pool.EMPTY


def test_floats_are_read_as_they_are_written() -> None:
    assert exact(0.1) == Fraction(1, 10)
    assert exact(1e22) == 10**22
    assert NumberSet.of(multiple_of=0.01).contains(19.99)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "3", True, None])
def test_bad_numbers_are_refused(bad: object) -> None:
    with pytest.raises(ConstraintError):
        exact(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [0, -1, 0.0])
def test_bad_steps_are_refused(bad: float) -> None:
    with pytest.raises(ConstraintError, match="greater than zero"):
        NumberSet.of(multiple_of=bad)
