"""Dates and times of RFC 3339, with its calendar rules, and durations (its appendix A)."""

from __future__ import annotations

from collections.abc import Callable

from .writer import Writer

__all__ = ["date", "date_time", "duration", "time"]

_YEAR = "[0-9]{4}"
_LEAP_YEAR = "(?: [0-9]{2} (?:0[48]|[2468][048]|[13579][26]) | (?:[02468][048]|[13579][26]) 00 )"
_DATE = rf"""
    {_YEAR} - (?: (?:0[13578]|1[02]) - (?:0[1-9]|[12][0-9]|3[01])
                | (?:0[469]|11) - (?:0[1-9]|[12][0-9]|30)
                | 02 - (?:0[1-9]|1[0-9]|2[0-8]) )
    | {_LEAP_YEAR} - 02 - 29
"""
_HOUR, _MINUTE = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]"
_FRACTION = r"(?:\.[0-9]+)?"
_TIME = rf"{_HOUR} : {_MINUTE} : {_MINUTE} {_FRACTION} (?: [Zz] | [+-] {_HOUR} : {_MINUTE} )"


def date(w: Writer) -> int:
    """``full-date``: month lengths and leap years are exact (also of centuries)."""
    return w.pattern(_DATE)


def time(w: Writer) -> int:
    """``full-time``; second 60 only where it is 23:59 in UTC."""
    return w.pool.alt(w.pattern(_TIME), _leap_second(w))


def _leap_second(w: Writer) -> int:
    """``hh:mm:60`` with an offset that makes it 23:59 in UTC.

    The relation of the hours and that of the minutes are written separately, and intersected lazily: for ``-oh:om`` it
    is 23 - oh and 59 - om; for ``+oh:om`` it is om - 1 and oh, but for om = 0 minute 59 of the hour before oh.
    """
    pool = w.pool
    second, minute = w.pattern(f":60{_FRACTION}"), w.pattern(_MINUTE)
    colon = w.text(":")
    two = [w.text(f"{n:02}") for n in range(60)]
    plus, minus = w.text("+"), w.text("-")
    hour = w.pattern(_HOUR)

    def hours(sign: int, of_offset: Callable[[int], int], local: int, offset: int) -> int:
        return pool.alt(*(pool.cat(two[of_offset(h)], colon, local, second, sign, two[h], colon, offset) for h in range(24)))

    def minutes(sign: int, of_offset: Callable[[int], int], first: int) -> int:
        return pool.alt(*(pool.cat(hour, colon, two[of_offset(m)], second, sign, hour, colon, two[m]) for m in range(first, 60)))

    behind = pool.both(hours(minus, lambda h: 23 - h, minute, minute), minutes(minus, lambda m: 59 - m, 0))
    ahead = pool.both(hours(plus, lambda h: h, minute, minute), minutes(plus, lambda m: m - 1, 1))
    full_hours = hours(plus, lambda h: (h + 23) % 24, two[59], two[0])
    return pool.alt(behind, ahead, full_hours, pool.cat(w.text("23:59"), second, w.pattern("[Zz]")))


def date_time(w: Writer) -> int:
    """``date-time``: a date, ``T`` (or ``t``), a time."""
    return w.pool.cat(date(w), w.pattern("[Tt]"), time(w))


def duration(w: Writer) -> int:
    """ISO 8601 durations without fractions; units may be left out at the ends only, weeks stand alone."""
    n = "[0-9]+"
    hours = f"(?: {n}H (?: {n}M (?:{n}S)? )? | {n}M (?:{n}S)? | {n}S )"
    days = f"(?: {n}Y (?: {n}M (?:{n}D)? )? | {n}M (?:{n}D)? | {n}D )"
    return w.pattern(f"P (?: {days} (?:T{hours})? | T{hours} | {n}W )")
