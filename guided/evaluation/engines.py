"""This library and its peers behind one narrow interface: compile a schema, fill a mask, advance by a token.

Every engine gets the same vocabulary and writes its masks in the same layout (bit ``t % 32`` of word ``t // 32`` for token
``t``). Peers are optional; one that is not installed is a :class:`~grammars.errors.GuidedError` that says what to install.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from grammars import Automaton, JsonSchema
from grammars.errors import GuidedError

from .tokenizers import Tokens

__all__ = ["ENGINES", "Engine", "Guided", "Refused", "make_engine"]


class Refused(Exception):
    """The engine does not take the schema; the message is the engine's own."""


class Engine(ABC):
    """One engine over one vocabulary. A text is begun with :meth:`begin`; then ``fill`` and ``advance`` alternate.

    Attributes:
        row: int32, the mask that ``fill()`` wrote last.
        fill: computes the mask of the present state into ``row``.
        advance: takes a token; false if the engine refuses it.
        ours: whether it is this library.
        options: what schemas are compiled with; may be replaced.
        version: of the engine.
    """

    ours = False
    options: Mapping[str, Any] = {}

    row: Any
    fill: Callable[[], object]
    advance: Callable[[int], object]
    version: str = ""

    def __init__(self, tokens: Tokens) -> None:
        self.vocabulary = tokens.vocabulary
        self._rows = np.zeros((1, self.vocabulary.words), dtype=np.int32)
        self.row = self._rows[0]

    @abstractmethod
    def compile(self, schema: Any) -> None:
        """Makes ready for a schema, up to and with what a first text needs; :meth:`begin` comes next.

        Raises:
            Refused: the engine does not take it.
        """

    @abstractmethod
    def begin(self) -> None:
        """Goes to the start of a text."""

    def allows(self, token: int) -> bool:
        """Whether the mask in ``row`` has ``token``."""
        return bool(int(self.row[token >> 5]) >> (token & 31) & 1)

    def error(self) -> str | None:
        """What the engine says went wrong since :meth:`begin`, where it reports that aside."""
        return None


def _peer(module: str, distribution: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        message = f"the engine {distribution} is not installed: pip install {distribution} (or leave it out of --engines)"
        raise GuidedError(message) from error


class Guided(Engine):
    """This library.

    Args:
        tokens: the vocabulary.
        options: of :class:`grammars.JsonSchema`.
    """

    ours = True

    def __init__(self, tokens: Tokens, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(tokens)
        self.options, self.version = dict(options or {}), version("guided-decoding")
        self.automaton: Automaton | None = None

    def compile(self, schema: Any) -> None:
        try:
            self.automaton = JsonSchema(schema, **self.options).compile(self.vocabulary)
        except GuidedError as error:
            raise Refused(str(error)) from error
        self.begin()

    def begin(self) -> None:
        assert self.automaton is not None
        automaton, row = self.automaton, self.row
        state, dead = automaton.start, automaton.DEAD
        fill, step = automaton.fill_mask, automaton.advance

        def advance(token: int) -> bool:
            nonlocal state
            state = step(state, token)
            return state != dead

        self.fill, self.advance = (lambda: fill(state, row)), advance


class LLGuidance(Engine):
    """llguidance: ``LLMatcher`` with its mask written through a kept pointer, which is its fastest way from Python."""

    def __init__(self, tokens: Tokens) -> None:
        super().__init__(tokens)
        self.library = _peer("llguidance", "llguidance")
        self.version = version("llguidance")
        vocabulary = tokens.vocabulary
        if tokens.tokenizer is not None:
            backend, end = tokens.tokenizer.backend_tokenizer.to_str(), vocabulary.eos_token_ids[0]
            self._tokenizer = self.library.LLTokenizer(backend, n_vocab=vocabulary.size, eos_token=end)
        else:
            self._tokenizer = self.library.LLTokenizer(self.library.TokenizerWrapper(_Plain(tokens)))
        self._pointer, self._bytes = self.row.ctypes.data, self.row.nbytes
        self._first: Any = None
        self._matcher: Any = None

    def compile(self, schema: Any) -> None:
        try:
            grammar = self.library.LLMatcher.grammar_from_json_schema(json.dumps(schema))
            self._first = self.library.LLMatcher(self._tokenizer, grammar, log_level=0)
        except ValueError as error:
            raise Refused(str(error)) from error
        if self._first.is_error():
            raise Refused(self._first.get_error())

    def matcher(self) -> Any:
        """A matcher at the start of a text."""
        return self._first.deep_copy()

    def begin(self) -> None:
        self._matcher = self.matcher()
        fill, pointer, count = self._matcher.unsafe_compute_mask_ptr, self._pointer, self._bytes
        self.fill, self.advance = (lambda: fill(pointer, count)), self._matcher.consume_token

    def error(self) -> str | None:
        return str(self._matcher.get_error()) if self._matcher.is_error() else None


class _Plain:
    """A vocabulary without a tokenizer, as llguidance wants to see it."""

    def __init__(self, tokens: Tokens) -> None:
        vocabulary = tokens.vocabulary
        self._vocabulary = vocabulary
        self.eos_token_id, self.bos_token_id = vocabulary.eos_token_ids[0], None
        self.tokens = list(vocabulary.tokens)
        self.special_token_ids = sorted({*vocabulary.special_token_ids, *vocabulary.eos_token_ids})

    def __call__(self, text: str | bytes) -> list[int]:
        return self._vocabulary.encode(text.encode() if isinstance(text, str) else text)


class XGrammar(Engine):
    """xgrammar with JSON Schema's own semantics (``strict_mode=False``: properties are open unless closed)."""

    options: Mapping[str, Any] = {"strict_mode": False}

    def __init__(self, tokens: Tokens) -> None:
        super().__init__(tokens)
        self.library = _peer("xgrammar", "xgrammar")
        self.version = version("xgrammar")
        vocabulary, library = tokens.vocabulary, self.library
        hidden = {*vocabulary.special_token_ids, *vocabulary.eos_token_ids}
        words = [b"" if i in hidden else token for i, token in enumerate(vocabulary.tokens)]
        ends = list(vocabulary.eos_token_ids)
        info = library.TokenizerInfo(words, library.VocabType.RAW, vocab_size=vocabulary.logits_size, stop_token_ids=ends)
        self._compiler = library.GrammarCompiler(info, max_threads=1)
        self._grammar: Any = None

    def compile(self, schema: Any) -> None:
        try:
            self._grammar = self._compiler.compile_json_schema(json.dumps(schema), **self.options)
        except RuntimeError as error:
            raise Refused(str(error)) from error
        self.begin()

    def matcher(self) -> Any:
        """A matcher at the start of a text."""
        return self.library.GrammarMatcher(self._grammar)

    def begin(self) -> None:
        import torch

        matcher = self.matcher()
        fill, rows = matcher.fill_next_token_bitmask, torch.from_numpy(self._rows)
        self.fill, self.advance = (lambda: fill(rows)), matcher.accept_token


class XGrammarStrict(XGrammar):
    """xgrammar with its defaults (``strict_mode=True``: undeclared properties are forbidden)."""

    options: Mapping[str, Any] = {}


class OutlinesCore(Engine):
    """outlines-core: the schema as one regular expression, compiled to an index over the vocabulary."""

    def __init__(self, tokens: Tokens) -> None:
        super().__init__(tokens)
        self.library = _peer("outlines_core", "outlines-core")
        self._expression = _peer("outlines_core.json_schema", "outlines-core").build_regex_from_schema
        self.version = version("outlines-core")
        vocabulary = tokens.vocabulary
        hidden = {*vocabulary.special_token_ids, *vocabulary.eos_token_ids}
        ids: dict[bytes, list[int]] = {}
        for token, data in enumerate(vocabulary.tokens):
            if data and token not in hidden:
                ids.setdefault(data, []).append(token)
        self._words = self.library.Vocabulary(vocabulary.eos_token_ids[0], ids)
        self._index: Any = None

    def compile(self, schema: Any) -> None:
        try:
            self._index = self.library.Index(self._expression(json.dumps(schema)), self._words)
        except (ValueError, TypeError, RuntimeError) as error:
            raise Refused(str(error)) from error
        self.begin()

    def begin(self) -> None:
        guide = self.library.Guide(self._index)
        write, step, pointer, count = guide.write_mask_into, guide.advance, self.row.ctypes.data, self.row.size

        def advance(token: int) -> bool:
            step(token, False)
            return True

        self.fill, self.advance = (lambda: write(pointer, count, 4)), advance


ENGINES: dict[str, tuple[Callable[[Tokens], Engine], str]] = {
    "guided": (Guided, "this library, with its defaults"),
    "llguidance": (LLGuidance, "LLMatcher, mask through a kept pointer"),
    "xgrammar": (XGrammar, "strict_mode=False: JSON Schema's semantics"),
    "xgrammar-strict": (XGrammarStrict, "its defaults: strict_mode=True"),
    "outlines-core": (OutlinesCore, "build_regex_from_schema, Index, Guide"),
}
"""What makes each engine, and how it is called."""


def make_engine(name: str, tokens: Tokens) -> Engine:
    """The engine of that name over ``tokens``.

    Raises:
        GuidedError: there is none of that name, or it is not installed.
    """
    if name not in ENGINES:
        raise GuidedError(f"no engine {name!r}; there are {', '.join(ENGINES)}")
    return ENGINES[name][0](tokens)
