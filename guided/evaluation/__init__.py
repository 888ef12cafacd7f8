"""Measures of the library itself: verdicts and times on schema collections.

Reading order: :mod:`.suites` (the collections and their layout), :mod:`.judge` (one schema, one verdict), :mod:`.pool` (guarded
worker processes), :mod:`.verdicts` (the run: resumable, with a table per split; ``python -m guided.evaluation.verdicts``).
"""

from __future__ import annotations
