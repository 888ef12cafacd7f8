"""Measures of the library itself: verdicts and times on schema collections.

Reading order: :mod:`.suites` (the collections and their layout), :mod:`.judge` (one schema, one verdict), :mod:`.pool` (guarded
worker processes), :mod:`.verdicts` (the run: resumable, with a table per split; ``python -m guided.evaluation.verdicts``). For speed:
:mod:`.engines` (this library and its peers), :mod:`.masks` and :mod:`.figures` (times in one run, and what they are judged by),
:mod:`.scale` (cost as work grows), :mod:`.soak` (memory over time), :mod:`.performance` (the document of all that).
"""

from __future__ import annotations
