"""How cost grows with the work: one curve a kind of work, each engine measured at every point of it.

Reading order: :mod:`.curves` (what is made bigger), :mod:`.measure` (one point, in a child process of its own), :mod:`.run` (engines in
turn, resumable), :mod:`.report` (tables and plots).
"""

from __future__ import annotations
