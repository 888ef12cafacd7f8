"""The problems that laws are tested on, by name (:mod:`guided.evaluation.toys` has them, with their answers by enumeration).

Use::

    @pytest.mark.parametrize("name", names())
    def test_law(name):
        check_exact(my_sampler, case(name))
"""

from __future__ import annotations

from guided.evaluation.toys import END, TOKENS, Case, Law, Tokens, case, cases, distortion, names, vocabulary

__all__ = ["END", "TOKENS", "Case", "Law", "Tokens", "case", "cases", "distortion", "names", "vocabulary"]
