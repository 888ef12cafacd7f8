"""The Hugging Face plug-in: ``model.generate`` with beams, samples, and a constraint of its own for each prompt of a batch."""

from __future__ import annotations

import torch

import guided


def main() -> None:
    model = guided.load()
    network, tokenizer = model.model, model.tokenizer
    prompts = ["The capital of France is", "My phone number is", "Once upon a time"]
    constraints = [
        guided.Choice([" Paris", " London", " Rome"]),
        guided.Regex(r" \+\d{2} \d{3} \d{4}"),
        None,  # this row is free
    ]
    batch = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    for title, options in [
        ("greedy", {"do_sample": False}),
        ("beams", {"do_sample": False, "num_beams": 3}),
        ("samples", {"do_sample": True, "num_return_sequences": 2}),
    ]:
        torch.manual_seed(0)
        processor = guided.GuidedLogitsProcessor(tokenizer, constraints, max_new_tokens=16, vocabulary=model.vocabulary)
        output = network.generate(**batch, logits_processor=[processor], max_new_tokens=16, **options)
        print(f"{title}:")
        for text in tokenizer.batch_decode(output, skip_special_tokens=True):
            print(f"  {text!r}")


if __name__ == "__main__":
    main()
