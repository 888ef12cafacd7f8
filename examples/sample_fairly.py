"""Fair samples: what the model itself would write, had it to keep to the language; and what token masks make of it.

Masks look one token ahead. The model may well begin with " dog", so they let it, and then it has to go on with what it would never write
here. The other methods weigh what follows, and agree with each other.
"""

from __future__ import annotations

import guided

PROMPT = "My favourite animal is the"
ANSWERS = [" dogwood.", " dogma.", " cat.", " elephant.", " horse."]


def lovely(text: str) -> float:
    """Logarithm of what a text is worth."""
    return 3.0 if "horse" in text else 0.0


def main() -> None:
    model = guided.load()
    for method in ("masking", "smc", "cars"):
        print(guided.sample(model, PROMPT, ANSWERS, method=method, particles=64, max_tokens=12, seed=0, chat=False), end="\n\n")
    result = guided.sample(model, PROMPT, ANSWERS, method="smc", reward=lovely, particles=64, max_tokens=12, seed=0, chat=False)
    print(f"for friends of horses:\n{result}", end="\n\n")
    print("three texts:", [item.text for item in result.draw(3)])


if __name__ == "__main__":
    main()
