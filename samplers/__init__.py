"""A model + states -> text. torch, on top of :mod:`grammars`."""
