"""Classification: literal text around a choice, greedily, and the model's own opinion of every option."""

from __future__ import annotations

import guided

LABELS = ["positive", "negative", "neutral"]


def main() -> None:
    model = guided.load()
    answer = "Sentiment: " + guided.Choice(LABELS) + "."
    reviews = ["What a wonderful film, I laughed all evening.", "The food was cold and the waiter rude.", "The train leaves at nine."]
    questions = [f"Is this review positive, negative or neutral?\n{review}" for review in reviews]
    for review, result in zip(reviews, guided.generate(model, questions, answer, temperature=0)):
        print(f"{review:50} -> {result.value}")
    samples = guided.generate(model, [questions[1]] * 8, answer, seed=1)
    counts = {label: sum(label in sample.value for sample in samples) for label in LABELS}
    print(f"eight samples for the second one: {counts}")


if __name__ == "__main__":
    main()
