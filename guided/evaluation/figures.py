"""What a run of :mod:`.masks` is judged by: the figures of speed like for like, as ratios to the better of the peers.

*Like for like*: schemas that every engine compiles, and valid instances that every engine accepts. So all figures are of the same
schemas, the same tokens and the same number of masks, taken in one run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

__all__ = ["FIGURES", "PEERS", "TIMES", "Comparison", "Figure", "LikeForLike", "compare", "figures", "like_for_like"]

Records = Mapping[str, Sequence[Mapping[str, Any]]]
"""Records (see :class:`.masks.MaskRecord`) by engine, the same schemas in each."""
TIMES = ("compile ms", "first mask ms", "mask us", "warm mask us")
"""The series of times: ``first mask ms`` is from the schema to the first mask, ``mask us`` of the first pass over an instance,
``warm mask us`` of the second one."""
PEERS = ("llguidance", "xgrammar", "xgrammar-strict")
"""Engines that ours is compared with."""


@dataclass(frozen=True)
class Figure:
    """One figure of speed; smaller is better.

    Attributes:
        series: of :data:`TIMES`; ``None`` for the total of compiling and all cold masks, in seconds.
        statistic: ``mean`` or a percentile, such as ``p99``.
        floor, aim: the ratio to the better peer that is asked for, and the one that is striven for.
        peers: who is compared with; the first that ran, for the times to the first mask.
    """

    name: str
    unit: str
    series: str | None
    statistic: str
    floor: float
    aim: float
    peers: tuple[str, ...] = PEERS


FIGURES = (
    Figure("TTFM p50", "ms", "first mask ms", "p50", 1.0, 0.5, ("llguidance",)),
    Figure("TTFM p99", "ms", "first mask ms", "p99", 1.0, 0.5, ("llguidance",)),
    Figure("mask p50, cold", "µs", "mask us", "p50", 1.0, 0.5),
    Figure("mask mean, cold", "µs", "mask us", "mean", 0.6, 0.3),
    Figure("mask p99, cold", "µs", "mask us", "p99", 1.0, 0.5),
    Figure("mask p99.9, cold", "µs", "mask us", "p99.9", 1.0, 0.5),
    Figure("mask mean, warm", "µs", "warm mask us", "mean", 0.5, 0.25),
    Figure("compile + all masks", "s", None, "total", 0.7, 0.4),
)
"""TTFM: time to first mask, from the schema as a Python object. Compile + all masks: over the sample, each schema compiled once."""


@dataclass(frozen=True)
class LikeForLike:
    """What every engine did: how many schemas and instances, and the series of times by engine."""

    schemas: int
    instances: int
    series: Mapping[str, Mapping[str, list[float]]]


def like_for_like(records: Records) -> LikeForLike:
    """The times of each engine on schemas that all compile and valid instances that all accept."""
    by_id = {name: {row["id"]: row for row in rows} for name, rows in records.items()}
    first = next(iter(by_id.values()), {})
    ids = [i for i in first if all(rows[i]["compile_ms"] is not None for rows in by_id.values())]
    accepted = [
        (i, k)
        for i in ids
        for k, valid in enumerate(first[i]["valid"])
        if valid and all(len(rows[i]["verdicts"]) > k and rows[i]["verdicts"][k] == "accept" for rows in by_id.values())
    ]
    series = {
        name: {
            "compile ms": [rows[i]["compile_ms"] for i in ids],
            "first mask ms": [rows[i]["first_mask_ms"] for i in ids],
            "mask us": [time for i, k in accepted for time in rows[i]["mask_us"][k]],
            "warm mask us": [time for i, k in accepted for time in rows[i]["warm_us"][k]],
        }
        for name, rows in by_id.items()
    }
    return LikeForLike(len(ids), len(accepted), series)


def _value(figure: Figure, series: Mapping[str, list[float]]) -> float | None:
    if figure.series is None:
        return sum(series["compile ms"]) / 1e3 + sum(series["mask us"]) / 1e6 if series["mask us"] else None
    values = series[figure.series]
    if not values:
        return None
    return float(np.mean(values) if figure.statistic == "mean" else np.percentile(values, float(figure.statistic[1:])))


def figures(found: LikeForLike) -> dict[str, dict[str, float | None]]:
    """Every figure of every engine; ``None`` where there is nothing like for like."""
    return {name: {figure.name: _value(figure, series) for figure in FIGURES} for name, series in found.series.items()}


@dataclass(frozen=True)
class Comparison:
    """One figure of ours beside the better peer's.

    Attributes:
        met: ``aim``, ``floor`` or ``missed``.
    """

    figure: str
    unit: str
    ours: float
    peer: str
    theirs: float
    ratio: float
    floor: float
    aim: float
    met: str

    as_dict = asdict


def _compare(found: Mapping[str, Mapping[str, float | None]], ours: str) -> Iterator[Comparison]:
    for figure in FIGURES:
        mine = found[ours][figure.name]
        theirs = {name: value for name in figure.peers if name in found and (value := found[name][figure.name])}
        if mine is None or not theirs:
            continue
        peer = min(theirs, key=lambda name: theirs[name])
        ratio = mine / theirs[peer]
        met = "aim" if ratio <= figure.aim else "floor" if ratio <= figure.floor else "missed"
        yield Comparison(figure.name, figure.unit, mine, peer, theirs[peer], ratio, figure.floor, figure.aim, met)


def compare(found: Mapping[str, Mapping[str, float | None]], ours: str = "guided") -> list[Comparison]:
    """The figures (as :func:`figures` gives them) of ``ours`` as ratios to the better peer; empty where it or its peers did not run."""
    return list(_compare(found, ours)) if ours in found else []
