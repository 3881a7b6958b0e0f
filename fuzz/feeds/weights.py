"""Folders of models and adapters: a configuration and an index, or a safetensors header, of which everything may lie.

What is read of them must lie in the folder; a network may come out, with every tensor in its place, or a sentence.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

from fuzz.mutations import PART
from fuzz.scratch import folder, put

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 16, "hidden_size": 8,
    "dtype": "float32", "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 4, "max_position_embeddings": 32, "tie_word_embeddings": True,
    "rms_norm_eps": 1e-06,
}  # fmt: skip
ADAPTER = {
    "peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"],
    "task_type": "CAUSAL_LM", "bias": "none", "rank_pattern": {}, "modules_to_save": None, "use_dora": False,
    "init_lora_weights": True, "megatron_config": None, "megatron_core": "megatron.core", "layer_replication": None,
}  # fmt: skip


def weights_index(data: bytes) -> None:
    """config.json and model.safetensors.index.json over two good shards, beside weights that may not be read."""
    from howsure.models.hf.files import ModelFiles
    from howsure.models.hf.loading import load_network, reads_images

    _network()
    config, index = [*data.split(PART), b""][:2]
    place = _model_folder()
    put("weights/model/config.json", config)
    put("weights/model/model.safetensors.index.json", index)
    files = ModelFiles(str(place))
    try:
        if not reads_images(files):
            load_network(files, None, "float32", "cpu", False)
        for name in os.listdir(files.lay_out_weights()):
            real = Path(files.path, name).resolve()
            assert real.parent in (place, Path(files.path)), real
            assert real.suffix in (".json", ".safetensors"), real
        assert files.fingerprint == ModelFiles(str(place)).fingerprint
    finally:
        shutil.rmtree(files.path)


def adapter_folder(data: bytes) -> None:
    """adapter_config.json, and the header of adapter_model.safetensors with as many bytes behind it as a good one."""
    from howsure.models.hf.files import ADAPTER, ModelFiles
    from howsure.models.hf.loading import _add_adapter

    _network()
    config, header = [*data.split(PART), b""][:2]
    content = _adapter_tensors()[1]
    put("weights/adapter/adapter_config.json", config)
    place = put(
        "weights/adapter/adapter_model.safetensors", len(header).to_bytes(8, "little") + header + content
    ).parent
    files = ModelFiles(str(place), ADAPTER)
    try:
        _ = files.fingerprint
        _add_adapter(copy.deepcopy(_network()), files)
    finally:
        shutil.rmtree(files.path)


def models() -> list[bytes]:
    """A model in two shards."""
    weight_map = {name: SHARDS[i % 2] for i, name in enumerate(sorted(_tensors()))}
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    return [PART.join(json.dumps(one).encode() for one in (CONFIG, index))]


def adapters() -> list[bytes]:
    return [json.dumps(ADAPTER).encode() + PART + _adapter_tensors()[0]]


@functools.cache
def _network() -> Any:
    """Imports that an alarm stops halfway are broken for good, so it is not heard; they still count as slow, and the
    input that they came with is tried again."""
    alarm = signal.signal(signal.SIGPROF, signal.SIG_IGN)
    try:
        import peft  # noqa: F401
        from transformers import AutoModelForCausalLM, LlamaConfig

        return AutoModelForCausalLM.from_config(LlamaConfig(**CONFIG))
    finally:
        signal.signal(signal.SIGPROF, alarm)


def _tensors() -> dict[str, Any]:
    return {name: tensor for name, tensor in _network().state_dict().items() if name != "lm_head.weight"}


@functools.cache
def _adapter_tensors() -> tuple[bytes, bytes]:
    """The header and the tensors of a LoRA adapter for the network."""
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
    from safetensors.torch import save

    state = get_peft_model_state_dict(
        get_peft_model(copy.deepcopy(_network()), LoraConfig(**ADAPTER | {"base_model_name_or_path": None}))
    )
    file = save({name: tensor.contiguous() for name, tensor in state.items()})
    end = 8 + int.from_bytes(file[:8], "little")
    return file[8:end], file[end:]


def _model_folder() -> Path:
    place = folder() / "weights" / "model"
    if not place.exists():
        from safetensors.torch import save

        tensors = _tensors()
        for i, shard in enumerate(SHARDS):
            put(f"weights/model/{shard}", save({name: tensors[name] for name in sorted(tensors)[i::2]}))
        put("weights/base/model.safetensors", save(tensors))
        put("weights/model/pytorch_model.bin", b"a pickle")
    return place.resolve()
