"""A typed answer: the result is an instance of a pydantic model, and the probabilities behind it are there to be seen."""

from __future__ import annotations

from pydantic import BaseModel, Field

import guided


class Person(BaseModel):
    name: str = Field(min_length=1, max_length=60)
    birth_year: int = Field(ge=1, le=2100)
    birth_place: str = Field(min_length=1, max_length=60)


def main() -> None:
    model = guided.load()  # the packaged model; or a folder, a hub id, (model, tokenizer)
    result = guided.generate(model, "Ada Lovelace was born in London in 1815.", Person, temperature=0, max_tokens=80)
    person: Person = result.value
    print(repr(person))
    print(f"text:            {result.text}")
    print(f"tokens:          {len(result.tokens)} in {result.timings.total:.1f} s")
    print(f"log-probability: {result.logprob:.2f} under the model itself")
    print(f"most mass that the mask removed in a step: {max(result.removed_mass):.3f}")


if __name__ == "__main__":
    main()
