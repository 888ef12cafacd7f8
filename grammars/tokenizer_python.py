"""Tokenizers that are written in Python: SentencePiece and tiktoken wrappers, mistral-common, and classes of their own.

Those with a known engine inside are asked for their bytes. For any other the reading of its token
strings is found by trial: the first of the known readings with which its own segmentation of some plain
texts writes these texts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from .errors import VocabularyError
from .tokenizer_bytes import _FALLBACK, METASPACE, TokenTable, byte_level

__all__ = ["PythonEncoder", "encoder_of", "table_of_python"]

_WORDS = ("the cat sat on the mat", "a man and a dog in the house", "it is 12 or 345")
_MARKS = ("Hello, World! (yes)", "x = [1];")
_FOREIGN = ("naïve café", "中文 🙂")


class PythonEncoder:
    """``encode`` of a Python tokenizer, without special tokens; the caller checks the result.

    Where the tokenizer puts a blank in front of text that has none, this is not what the text is, and the caller's own
    segmentation takes its place.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __call__(self, text: str) -> list[int]:
        return [int(i) for i in self.tokenizer.encode(text, add_special_tokens=False)]


class EngineEncoder:
    """``encode`` of a tiktoken or tekken engine: ordinary text only."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def __call__(self, text: str) -> list[int]:
        if hasattr(self.engine, "encode_ordinary"):
            return list(self.engine.encode_ordinary(text))
        return list(self.engine.encode(text, bos=False, eos=False))


def _engine(tokenizer: Any) -> Any:
    """The tekken or tiktoken engine in (or behind) a tokenizer, or ``None``."""
    return next((c for c in _inside(tokenizer) if hasattr(c, "id_to_byte_piece") or hasattr(c, "decode_single_token_bytes")), None)


def _inside(tokenizer: Any) -> list[Any]:
    """The tokenizer and the objects in which wrappers keep their engine."""
    found = [tokenizer, *(getattr(tokenizer, name, None) for name in ("tokenizer", "model", "encoder", "enc", "sp_model"))]
    instruct = getattr(found[1], "instruct_tokenizer", None) or getattr(tokenizer, "instruct_tokenizer", None)
    inner = getattr(instruct, "tokenizer", None)
    return [*found, inner, getattr(inner, "_model", None)]


def encoder_of(tokenizer: Any) -> Callable[[str], Sequence[int]]:
    """The segmentation of ordinary text by this tokenizer."""
    engine = _engine(tokenizer)
    return PythonEncoder(tokenizer) if engine is None else EngineEncoder(engine)


def table_of_python(tokenizer: Any) -> TokenTable:
    """The token table of a Python tokenizer.

    Raises:
        VocabularyError: none of the known readings fits.
    """
    engine = _engine(tokenizer)
    pieces = next((c for c in _inside(tokenizer) if hasattr(c, "is_byte") and hasattr(c, "get_piece_size")), None)
    if engine is not None:
        table = _of_tekken(engine) if hasattr(engine, "id_to_byte_piece") else _of_tiktoken(engine)
    elif pieces is not None:
        table = _of_sentencepiece(pieces)
    else:
        return _by_trial(tokenizer)
    _add_added(table, tokenizer)
    return table


def _added(tokenizer: Any) -> dict[int, str]:
    """Added and special tokens by id."""
    added: dict[int, str] = {}
    with contextlib.suppress(AttributeError, NotImplementedError):
        added.update((int(i), str(token)) for i, token in tokenizer.added_tokens_decoder.items())
    for i, token in zip(getattr(tokenizer, "all_special_ids", ()), getattr(tokenizer, "all_special_tokens", ())):
        added.setdefault(int(i), str(token))
    unknown = getattr(tokenizer, "unk_token_id", None)
    if unknown is not None:
        added.setdefault(int(unknown), str(tokenizer.unk_token))
    return added


def _add_added(table: TokenTable, tokenizer: Any) -> None:
    for i, content in _added(tokenizer).items():
        table.tokens += [b""] * (i + 1 - len(table.tokens))
        table.tokens[i] = content.encode("utf-8", "surrogatepass")
        table.special.add(i)


def _of_tekken(engine: Any) -> TokenTable:
    ids = range(engine.n_words)
    special = {i for i in ids if engine.is_special(i)}
    return TokenTable([engine.id_to_piece(i).encode() if i in special else engine.id_to_byte_piece(i) for i in ids], special)


def _of_tiktoken(engine: Any) -> TokenTable:
    table = TokenTable([b""] * engine.n_vocab)
    for i in range(engine.n_vocab):
        try:
            table.tokens[i] = engine.decode_single_token_bytes(i)
        except KeyError:  # a hole between the ranks and the special tokens
            table.special.add(i)
    for content in engine.special_tokens_set:
        table.special.add(engine.encode_single_token(content))
    return table


def _of_sentencepiece(model: Any) -> TokenTable:
    table = TokenTable([])
    for i in range(model.get_piece_size()):
        piece = model.id_to_piece(i)
        if model.is_byte(i):
            table.tokens.append(bytes([int(piece[3:5], 16)]))
            table.avoid.add(i)
        else:
            table.tokens.append(piece.replace(METASPACE, " ").encode())
        if model.is_control(i) or model.is_unknown(i) or model.is_unused(i):
            table.special.add(i)
    return table


# ---------------------------------------------------------------- by trial
def _latin(token: str) -> bytes:
    """One character per byte (ByT5)."""
    return token.encode("latin-1") if len(token) == 1 and ord(token) < 256 else b""


def _metaspace(token: str) -> bytes:
    match = _FALLBACK.fullmatch(token)
    return bytes([int(match[1], 16)]) if match else token.replace(METASPACE, " ").encode("utf-8", "surrogatepass")


def _word_piece(token: str) -> bytes:
    return token.removeprefix("##").encode() if token.startswith("##") else b" " + token.encode("utf-8", "surrogatepass")


def _word_end(token: str) -> bytes:
    return token.removesuffix("</w>").encode() + b" " if token.endswith("</w>") else token.encode("utf-8", "surrogatepass")


def _continued(token: str) -> bytes:
    """``@@`` marks a piece that the next one continues (fairseq, CTRL)."""
    return token.removesuffix("@@").encode() if token.endswith("@@") else token.encode("utf-8", "surrogatepass") + b" "


_READINGS: tuple[Callable[[str], bytes], ...] = (byte_level, _latin, _metaspace, _word_piece, _word_end, _continued)


def _by_trial(tokenizer: Any) -> TokenTable:
    added = _added(tokenizer)
    try:
        strings = {int(i): str(s) for s, i in tokenizer.get_vocab().items()}
        encode = PythonEncoder(tokenizer)
        samples = [(text, encode(text)) for text in (*_WORDS, *_MARKS, *_FOREIGN)]
    except (AttributeError, NotImplementedError, TypeError) as error:
        raise VocabularyError(f"{type(tokenizer).__name__} is not a tokenizer: it needs get_vocab() and encode() ({error})") from error
    samples = [(text, ids) for text, ids in samples if ids and not any(i in added for i in ids)]
    for read in _READINGS:
        if _fits(read, {text: b"".join(read(strings.get(i, "")) for i in ids) for text, ids in samples}):
            table = TokenTable([b""] * (max([*strings, *added]) + 1))
            for i, string in strings.items():
                table.tokens[i] = read(string)
            _add_added(table, tokenizer)
            return table
    raise VocabularyError(
        f"cannot tell which bytes the tokens of {type(tokenizer).__name__} write; build the vocabulary with "
        "Vocabulary(tokens=..., eos_token_ids=..., special_token_ids=..., encode=...)"
    )


def _fits(read: Callable[[str], bytes], written: dict[str, bytes]) -> bool:
    """Whether a reading explains the segmentations that have no unknown token: words exactly (but for blanks around the
    text), marks up to blanks and case, and, where characters stand for bytes, foreign text exactly."""
    bytewise = read in (byte_level, _latin)
    for text, data in written.items():
        exact = data.strip(b" ") == text.encode()
        if text in _MARKS:
            exact = b"".join(data.lower().split()) == "".join(text.lower().split()).encode()
        if not exact and (bytewise or text not in _FOREIGN):
            return False
    return any(text in written for text in (_FOREIGN if bytewise else _WORDS))
