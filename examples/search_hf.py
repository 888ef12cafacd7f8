"""Search strategies in transformers: ``custom_generate`` takes them as they are, under a constraint or free."""

from __future__ import annotations

import guided
from guided.strategies import Beam, Blockwise

PROMPT = "Question: How is the weather today?\nAnswer:"


def cheerful(text: str) -> float:
    """A reward of texts: cheerful words."""
    return float(sum(text.lower().count(word) for word in ("sun", "warm", "bright", "lovely", "great")))


def main() -> None:
    model = guided.load()
    network, tokenizer = model.model, model.tokenizer
    inputs = tokenizer(PROMPT, return_tensors="pt")
    start = inputs["input_ids"].shape[1]

    output = network.generate(**inputs, max_new_tokens=12, num_beams=3, num_return_sequences=3, custom_generate=Beam(beams=3))
    print("beams:", tokenizer.batch_decode(output[:, start:], skip_special_tokens=True))

    sentence = guided.GuidedLogitsProcessor(tokenizer, guided.Regex(r" [A-Z][a-z ,']{5,80}\."), max_new_tokens=24)
    strategy = Blockwise(cheerful, k=6, block=4)
    output = network.generate(**inputs, max_new_tokens=24, logits_processor=[sentence], custom_generate=strategy, search_seed=3)
    print("cheerful, in one sentence:", tokenizer.decode(output[0, start:], skip_special_tokens=True))


if __name__ == "__main__":
    main()
