"""The prompts: CommonGen's concepts, and Spec-Bench's questions and articles. Read where they lie, see :mod:`..suites`."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grammars.errors import GuidedError

__all__ = ["articles", "concepts", "covered", "forms", "questions"]

_VOWELS = "aeiou"
_IRREGULAR = {
    "begin": "began begun", "bite": "bit bitten", "blow": "blew blown", "break": "broke broken", "bring": "brought", "build": "built",
    "buy": "bought", "catch": "caught", "child": "children", "come": "came", "cut": "cut", "dig": "dug", "do": "did done does",
    "draw": "drew drawn", "drink": "drank drunk", "drive": "drove driven", "eat": "ate eaten", "fall": "fell fallen", "feed": "fed",
    "feel": "felt", "fight": "fought", "find": "found", "fly": "flew flown", "foot": "feet", "freeze": "froze frozen",
    "get": "got gotten", "give": "gave given", "go": "went gone goes", "grow": "grew grown", "hang": "hung", "have": "had has",
    "hide": "hid hidden", "hold": "held", "keep": "kept", "knife": "knives", "lay": "laid", "lead": "led", "leaf": "leaves",
    "leave": "left", "lie": "lay lain lying", "light": "lit", "lose": "lost", "make": "made", "man": "men", "meet": "met",
    "mouse": "mice", "put": "put", "read": "read", "ride": "rode ridden", "ring": "rang rung", "rise": "rose risen", "run": "ran",
    "say": "said", "see": "saw seen", "sell": "sold", "send": "sent", "shake": "shook shaken", "shear": "shorn", "shelf": "shelves",
    "shine": "shone", "shoot": "shot", "show": "shown", "sing": "sang sung", "sit": "sat", "sleep": "slept", "slide": "slid",
    "speak": "spoke spoken", "spend": "spent", "spin": "spun", "spread": "spread", "stand": "stood", "steal": "stole stolen",
    "stick": "stuck", "strike": "struck", "sweep": "swept", "swim": "swam swum", "swing": "swung", "take": "took taken",
    "teach": "taught", "tear": "tore torn", "tell": "told", "think": "thought", "throw": "threw thrown", "tie": "tying",
    "tooth": "teeth", "wear": "wore worn", "win": "won", "wind": "wound", "woman": "women", "write": "wrote written",
}  # fmt: skip


def _lines(data: Path, name: str) -> list[dict[str, Any]]:
    path = data / name
    if not path.is_file():
        raise GuidedError(f"{path} is missing: give the folder that holds it")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _some(rows: Sequence[Any], count: int, seed: int) -> list[Any]:
    return random.Random(seed).sample(list(rows), min(count, len(rows)))


def concepts(data: Path, count: int, seed: int) -> list[tuple[str, ...]]:
    """Sets of concepts of CommonGen's development set."""
    return [tuple(row["concepts"]) for row in _some(_lines(data, "prompts_commongen_dev.jsonl.gz"), count, seed)]


def questions(data: Path, count: int, seed: int, longest: int = 160) -> list[str]:
    """Spec-Bench's tasks of writing and role play that are short."""
    rows = [row for row in _lines(data, "prompts_spec_bench.jsonl.gz") if row["category"] in ("writing", "roleplay")]
    return _some([row["turns"][0] for row in rows if len(row["turns"][0]) <= longest], count, seed)


def articles(data: Path, count: int, seed: int, characters: int = 700) -> list[str]:
    """The beginnings of articles that Spec-Bench wants summarised, cut at the end of a sentence."""
    rows = [row["turns"][0] for row in _lines(data, "prompts_spec_bench.jsonl.gz") if row["category"] == "summarization"]
    found = []
    for text in _some(rows, count, seed):
        body = text.split("\n", 1)[-1] if text.lower().startswith("summar") else text
        cut = body[:characters]
        found.append(cut[: cut.rfind(". ") + 1] or cut)
    return found


def forms(word: str) -> tuple[str, ...]:
    """The inflected forms of an English word, the word first: regular ones by rule, irregular ones from a list.

    More than there are (a noun gets the forms of a verb, too): what counts as mentioning a concept, as in CommonGen.
    """
    found = [word, *_IRREGULAR.get(word, "").split()]
    stem = word[:-1]
    if word.endswith("e"):
        found += [word + "s", word + "d", stem + "ing", word + "r"]
    elif word.endswith("y") and word[-2:-1] not in _VOWELS:
        found += [stem + "ies", stem + "ied", word + "ing"]
    elif re.search("(s|x|z|ch|sh)$", word):
        found += [word + "es", word + "ed", word + "ing"]
    else:
        found += [word + "s", word + "ed", word + "ing", word + "er"]
        if re.search("[^aeiou][aeiou][^aeiouwxy]$", word):
            found += [word + word[-1] + ending for ending in ("ed", "ing", "er")]
    return tuple(dict.fromkeys(found))


def covered(words: Sequence[str], text: str) -> float:
    """The share of the words of which some form stands in the text."""
    said = set(re.findall(r"[a-z]+", text.lower()))
    return sum(not said.isdisjoint(forms(word)) for word in words) / len(words)
