"""The numba functions of :mod:`grammars`, and nothing else: flat arrays in, flat arrays out.

Each has a docstring saying shapes and cost. Python calls them a handful of times a step, never once per token of
the vocabulary. They are compiled on first use and cached on disk beside their source (or in ``NUMBA_CACHE_DIR``).
"""
