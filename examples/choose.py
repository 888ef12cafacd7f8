"""The model's opinion without sampling: the probability of each answer, and what else a field of a generated object could have said."""

from __future__ import annotations

import guided

REVIEWS = ["What a wonderful film, I laughed all evening.", "The food was cold and the waiter rude."]
SCHEMA = {
    "type": "object",
    "properties": {"sentiment": {"enum": ["positive", "negative", "mixed"]}, "recommended": {"type": "boolean"}},
    "required": ["sentiment", "recommended"],
    "additionalProperties": False,
}


def main() -> None:
    model = guided.load()
    questions = [f"Is this review positive, negative or mixed? Answer with one word.\n{review}" for review in REVIEWS]
    for review, found in zip(REVIEWS, guided.choose(model, questions, ["Positive", "Negative", "Mixed"], event="word")):
        print(review)
        for option in found.ranked:
            print(f"  {option.share:6.3f}  {option.text}  (log-probability {option.logprob:.2f}, at most {option.missed:.1g} missing)")
        print(f"  these answers hold {found.mass:.3f} of the model's mass")

    result = guided.generate(model, REVIEWS[1], SCHEMA, seed=0)
    print(result.text)
    for pointer, field in guided.field_probabilities(model, REVIEWS[1], result, SCHEMA).items():
        print(f"  {pointer}: " + ", ".join(f"{value.value!r} {value.share:.3f}" for value in field.values))


if __name__ == "__main__":
    main()
