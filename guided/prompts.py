"""From what the user says to token ids: chat messages, the model's chat template, and the note that tells the model its schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from grammars import ModelError

from .inputs import Target
from .model import Model

__all__ = ["Prompt", "instruction", "is_single", "prompt_ids"]

Message = Mapping[str, Any]
Prompt = str | Sequence[Message]

_LONGEST_SCHEMA = 4_000  # characters of a schema that is quoted in full


def is_single(prompt: Any) -> bool:
    """Whether this is one prompt (a text, or a list of messages) and not a list of prompts."""
    return isinstance(prompt, str) or (isinstance(prompt, Sequence) and len(prompt) > 0 and all(isinstance(m, Mapping) for m in prompt))


def instruction(target: Target) -> str | None:
    """What the model is told about the form of its answer: the schema, where there is one and it is short enough to be of use."""
    if target.schema is None:
        return None
    text = json.dumps(target.schema, ensure_ascii=False, separators=(",", ":"))
    if len(text) > _LONGEST_SCHEMA:
        return "Answer with JSON only."
    return f"Answer with JSON only, an instance of this JSON schema:\n{text}"


def _with_note(messages: list[dict[str, Any]], note: str) -> list[dict[str, Any]]:
    """The note behind the last thing that the user said, as a paragraph of its own; what the user wrote stays as it is.

    Measured on the packaged model: at this place it follows the note, in a system message it mostly does not (and some templates have
    no system role).
    """
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message.get("role") == "user" and isinstance(message.get("content"), str):
            return [*messages[:at], {**message, "content": f"{message['content']}\n\n{note}"}, *messages[at + 1 :]]
    return messages


def _rendered(tokenizer: Any, messages: list[dict[str, Any]]) -> str:
    from jinja2 import TemplateError

    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    except TemplateError as error:
        raise ModelError(f"the model's chat template refuses these messages: {error}") from error


def prompt_ids(model: Model, prompt: Prompt, target: Target, *, chat: bool, instruct: bool) -> list[int]:
    """Token ids of one prompt.

    Args:
        prompt: a text, or messages (``{"role": ..., "content": ...}``).
        target: the constraint, for the note.
        chat: put a text into the chat template, as a user's message; it is taken as it is where the model has no template.
        instruct: add :func:`instruction` behind the user's last message (chat only).

    Raises:
        ModelError: messages for a model without a chat template, or messages that its template refuses.
    """
    tokenizer = model.tokenizer
    if isinstance(prompt, str) and not (chat and getattr(tokenizer, "chat_template", None)):
        ids = list(tokenizer(prompt)["input_ids"])
    else:
        if not getattr(tokenizer, "chat_template", None):
            raise ModelError(f"{model.name} has no chat template: give the prompt as one text instead of messages")
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(m) for m in prompt]
        note = instruction(target) if instruct else None
        text = _rendered(tokenizer, _with_note(messages, note) if note else messages)
        ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    if ids:
        return [int(i) for i in ids]
    start = getattr(tokenizer, "bos_token_id", None)
    return [model.vocabulary.eos_token_ids[0] if start is None else int(start)]
