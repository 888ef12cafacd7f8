"""Dates and times of RFC 3339, with its calendar rules, and durations (its appendix A)."""

from __future__ import annotations

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
    """``hh:mm:60`` with the offsets that make it 23:59 UTC: for every local time one of each sign, and ``Z`` at 23:59 itself."""
    pool = w.pool
    second = pool.cat(w.text(":60"), w.pattern(_FRACTION))
    zulu = w.pattern("[Zz]")
    hours = []
    for hour in range(24):
        minutes = []
        for minute in range(60):
            local = 60 * hour + minute
            ahead, behind = (local + 1) % 1440, (1439 - local) % 1440
            offsets = [w.text(f"{sign}{o // 60:02}:{o % 60:02}") for sign, o in (("+", ahead), ("-", behind))]
            minutes.append(pool.cat(w.text(f"{minute:02}"), second, pool.alt(*offsets, *([zulu] if local == 1439 else []))))
        hours.append(pool.cat(w.text(f"{hour:02}:"), pool.alt(*minutes)))
    return pool.alt(*hours)


def date_time(w: Writer) -> int:
    """``date-time``: a date, ``T`` (or ``t``), a time."""
    return w.pool.cat(date(w), w.pattern("[Tt]"), time(w))


def duration(w: Writer) -> int:
    """ISO 8601 durations without fractions; units may be left out at the ends only, weeks stand alone."""
    n = "[0-9]+"
    hours = f"(?: {n}H (?: {n}M (?:{n}S)? )? | {n}M (?:{n}S)? | {n}S )"
    days = f"(?: {n}Y (?: {n}M (?:{n}D)? )? | {n}M (?:{n}D)? | {n}D )"
    return w.pattern(f"P (?: {days} (?:T{hours})? | T{hours} | {n}W )")
