"""A reward of pleasant words: how much of it each way of searching and guiding gets for its forwards.

The text is one sentence in answer to a question of Spec-Bench; its reward counts different pleasant words and takes off different
unpleasant ones (the lists are below). Every method runs at several sizes, so that rewards can be compared at equal numbers of forwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .records import Record, Task

if TYPE_CHECKING:
    from guided.model import Model
    from guided.strategies import Strategy

__all__ = ["LEXICON", "SENTENCE", "tasks"]

SENTENCE = r"[A-Z][^\n.!?]{10,150}[.!?]"

_PLEASANT = """
admirable adorable amazing beautiful beauty beloved blessed bliss bright brilliant calm celebrate charm charming cheerful comfort cozy
dazzling delicious delight delightful dream eager easy elegant enchanting enjoy excellent excited exciting exquisite fabulous faithful
fantastic fine free freedom fresh friend friendly friendship fun generous gentle gift glad gorgeous grace graceful grateful great happiness
happy harmony healthy heart hope hopeful inspiring inviting joy joyful kind kindness laugh laughter lively love loved lovely loving lucky
lush luxurious magic magical magnificent marvelous memorable nice paradise passion passionate peace peaceful perfect playful pleasant
pleasure precious pretty proud pure radiant refreshing rich romantic safe scenic serene smile spectacular splendid stunning success
successful sunny superb sweet thrilling thrive tranquil treasure triumph vibrant victory vivid warm warmth welcome welcoming wise wonder
wonderful
"""
_UNPLEASANT = """
abandoned afraid agony alone anger angry awful bad bitter blood bored boring broken brutal burden cold cruel cruelty cry damage danger
dangerous dark darkness dead death defeat despair desperate destroy dirty disaster dreadful dull empty evil fail failure fear fearful fierce
filth gloomy grief grim guilt harm harsh hate hatred haunted horrible horror hostile hurt ill lonely lost mad miserable misery mourn murder
nasty pain painful poison poor rage rotten ruin sad sadness scar scared scream shame sick sorrow storm suffer suffering terrible terror
threat tired toxic tragedy tragic ugly unhappy vicious victim violent weak weary wicked worry worst wound wrong
"""
LEXICON = dict.fromkeys(_PLEASANT.split(), 1.0) | dict.fromkeys(_UNPLEASANT.split(), -1.0)


def methods(value: Any) -> list[tuple[str, int, Strategy]]:
    """Name, size (texts, blocks to choose from, particles) and strategy of what is compared."""
    from guided import strategies as s

    found: list[tuple[str, int, Any]] = [("sampling", 1, s.BestOfN(value, n=1))]
    found += [("ARGS, greedy", 1, s.Args(value, weight=2.0, greedy=True))]
    for n in (1, 4):
        found += [
            ("ARGS", n, s.Args(value, weight=2.0, n=n)),
            ("RAD", n, s.Rad(value, beta=2.0, n=n)),
            ("controlled decoding", n, s.Controlled(value, strength=2.0, n=n)),
        ]
    for n in (4, 8):
        found += [
            ("best of n", n, s.BestOfN(value, n=n)),
            ("block-wise", n, s.Blockwise(value, k=n, block=6)),
            ("SMC", n, s.Smc(value, n=n, scale=2.0)),
            ("A*-decoding", n, s.AStarSteps(value, rule=6, k=n)),
        ]
    return found


def tasks(model: Model, prompts: list[str], *, max_tokens: int = 32, seed: int = 7) -> list[Task]:
    """One task a prompt and method."""
    from samplers.scores import Lexicon

    value = Lexicon(LEXICON, model.vocabulary, once=True)
    found = []
    for i, prompt in enumerate(prompts):
        for name, size, strategy in methods(value):
            found.append(Task("rewards", str(i), f"{name}, {size}", _run(model, value, prompt, strategy, name, size, max_tokens, seed + i)))
    return found


def _run(model: Model, value: Any, prompt: str, strategy: Strategy, name: str, size: int, max_tokens: int, seed: int) -> Any:
    import guided
    from samplers.scores import Candidate

    def run() -> Record:
        model.language_model.clear()
        constraint = guided.Regex(SENTENCE)
        question = f"{prompt}\nAnswer with one sentence."
        result = guided.generate(model, question, constraint, search=strategy, max_tokens=max_tokens, seed=seed)
        report = result.search
        said = value.rewards([Candidate.of((), result.tokens, ends=frozenset(model.vocabulary.eos_token_ids))])[0]
        record: Record = {"name": name, "size": size, "reward": said, "fluency": result.logprob / len(result.tokens)}
        spent = {"forwards": report.forwards, "made": report.tokens, "seconds": report.seconds, "length": len(result.tokens)}
        return record | spent | {"text": result.text}

    return run
