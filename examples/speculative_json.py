"""Speculative decoding: the same text, or the same law, in fewer passes of the model; alone and in transformers' own generate."""

from __future__ import annotations

import time

import guided

TEXT = "Ada Lovelace, a mathematician, was born in London in 1815. Charles Babbage, an engineer, was born in London in 1791."
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "profession": {"type": "string", "maxLength": 30},
        "born": {"type": "integer"},
    },
    "required": ["name", "profession", "born"],
    "additionalProperties": False,
}
SCHEMA = {"type": "array", "items": PERSON, "minItems": 2, "maxItems": 2}


def main() -> None:
    model = guided.load()
    constraint = guided.JsonSchema(SCHEMA, whitespace="compact", escapes="minimal")  # one spelling: more is forced
    for draft in (None, "forced", "auto"):
        model.language_model.clear()  # it would remember the text of the draft before
        began = time.perf_counter()
        result = guided.generate(model, TEXT, constraint, temperature=0, max_tokens=96, draft=draft)
        print(f"draft={draft}: {len(result.tokens)} tokens in {time.perf_counter() - began:.1f} s")
    print(result.text)

    # the same in transformers: the constraint as a logits processor, speculation as the way to decode
    inputs = model.tokenizer(f"{TEXT}\nAs JSON: ", return_tensors="pt")
    processor = guided.GuidedLogitsProcessor(model.tokenizer, constraint, max_new_tokens=96, vocabulary=model.vocabulary)
    output = model.model.generate(
        **inputs,
        max_new_tokens=96,
        do_sample=False,
        logits_processor=[processor],
        custom_generate=guided.Speculation("auto"),
        return_dict_in_generate=True,
    )
    made = output.sequences.shape[1] - inputs["input_ids"].shape[1]
    print(f"transformers: {made} tokens in {output.forwards} forwards")


if __name__ == "__main__":
    main()
