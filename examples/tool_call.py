"""A tool call: the model writes the arguments of a Python function, and they are always ones that the function takes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

import guided


def book_table(
    guests: Annotated[int, Field(ge=1, le=12)],
    day: Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
    hour: Annotated[int, Field(ge=12, le=22)],
    outside: bool = False,
) -> str:
    """Books a table in the restaurant."""
    return f"A table for {guests} on {day} at {hour}:00, {'outside' if outside else 'inside'}."


def main() -> None:
    model = guided.load()
    request = "Book a table: 4 guests, day Friday, hour 19."
    # instruct=False: a model this small copies numbers out of the schema when it is shown one
    result = guided.generate(model, request, book_table, temperature=0, max_tokens=60, instruct=False)
    print(f"arguments: {result.value}")
    print(book_table(**result.value))


if __name__ == "__main__":
    main()
