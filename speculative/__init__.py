"""Drafters, trees and verifiers: several tokens for one pass of the model, with the output's law unchanged.

There is nothing here yet. What will live here: a method is a choice of *drafter* (what proposes tokens), *tree shape*, *stop policy*
and *verifier*; every drafted token carries its grammar state (:mod:`grammars`), so that drafts never leave the language. What may be
imported: :mod:`grammars`, :mod:`samplers`.
"""
