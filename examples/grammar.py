"""A Lark grammar: arithmetic without left-out brackets, and what may follow where."""

from __future__ import annotations

import guided

ARITHMETIC = r"""
start: expression
?expression: expression ("+" | "-") term | term
?term: term ("*" | "/") factor | factor
?factor: NUMBER | "(" expression ")"
NUMBER: /[0-9]{1,4}/
%import common.WS_INLINE
%ignore WS_INLINE
"""


def main() -> None:
    model = guided.load()
    grammar = guided.Lark(ARITHMETIC)
    results = guided.generate(model, ["Write a sum of three numbers in brackets."] * 3, grammar, seed=7, max_tokens=24)
    for result in results:
        print(f"{result.text!r}  ({result.finish_reason}, log-probability {result.logprob:.1f})")

    automaton = grammar.compile(model.vocabulary)
    state = automaton.advance_bytes(automaton.start, b"(1 + 2")  # states are integers: keep, copy, compare them
    allowed = [model.vocabulary.tokens[token] for token in automaton.successors(state)[0]]
    print(f"after '(1 + 2' may come {len(allowed)} tokens, for instance {sorted(allowed)[:6]}")
    print(f"shortest way to the end: {model.vocabulary.decode(automaton.shortest_completion(state))!r}")


if __name__ == "__main__":
    main()
