"""Numba kernels: flat arrays in, flat arrays out, and nothing else.

Kernels that call each other live in one file (numba's cache on disk does not notice a change of a callee
in another file).

- :mod:`~grammars.kernels.walk`: walks of the vocabulary's byte trie that make token masks.
"""
