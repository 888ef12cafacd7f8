"""Search for good texts: one interface (:mod:`.frontier`), a strategy a file.

Reading order: :mod:`.frontier` (nodes, spaces, budgets, results), then any strategy.
"""
