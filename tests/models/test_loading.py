"""A checkpoint is loaded whole or not at all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import howsure
from howsure.errors import InputError, WeightsError
from howsure.models.hf.files import ModelFiles


@pytest.fixture
def copy(tiny_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_folder, tmp_path / "model"))


def change_weights(folder: Path, change) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_missing_tensors_are_named_and_never_random(copy: Path) -> None:
    change_weights(copy, lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"))
    with pytest.raises(WeightsError, match=r"missing keys model\.layers\.1\.mlp\.up_proj\.weight"):
        howsure.load(f"hf:{copy}")


def test_tensors_of_another_shape_are_refused(copy: Path) -> None:
    def shrink(tensors):
        tensors["model.norm.weight"] = tensors["model.norm.weight"][:5].clone()

    change_weights(copy, shrink)
    with pytest.raises(WeightsError, match=r"model\.norm\.weight"):
        howsure.load(f"hf:{copy}")


@pytest.mark.parametrize(
    ("name", "content"),
    [("model.safetensors", b"\xff" * 100), ("config.json", b"{"), ("tokenizer.json", b"[]"), ("config.json", b"{}")],
)
def test_damaged_files_are_one_sentence(copy: Path, name: str, content: bytes) -> None:
    (copy / name).write_bytes(content)
    with pytest.raises(WeightsError, match="cannot be (loaded|read)"):
        howsure.load(f"hf:{copy}")


def test_pickled_weights_are_not_opened(copy: Path) -> None:
    import torch

    (copy / "model.safetensors").unlink()
    torch.save({}, copy / "pytorch_model.bin")
    with pytest.raises(WeightsError, match=r"holds no model\.safetensors; pytorch_model\.bin is a pickle"):
        howsure.load(f"hf:{copy}")


def test_code_in_a_checkpoint_does_not_run_unasked(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.EvilConfig", "AutoModelForCausalLM": "evil.Evil"}}
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "evil.py").write_text(f"open({str(copy / 'ran')!r}, 'w').write('x')\n")
    with pytest.raises(WeightsError):
        howsure.load(f"hf:{copy}")
    assert not (copy / "ran").exists()


def test_the_newest_checkpoint_of_a_folder_is_taken(tiny_folder: Path, tmp_path: Path) -> None:
    for step in (9, 10):
        shutil.copytree(tiny_folder, tmp_path / f"checkpoint-{step}")
    assert howsure.load(f"hf:{tmp_path}", lazy=True).source == str(tmp_path / "checkpoint-10")


def test_a_lora_adapter_changes_what_its_weights_say(tiny_folder: Path, tmp_path: Path) -> None:
    """The merged model against base + B·A worked out by hand."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(tiny_folder)
    torch.manual_seed(0)
    wrapped = get_peft_model(base, LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    for name, parameter in wrapped.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    wrapped.save_pretrained(tmp_path)
    plain = howsure.load(f"hf:{tiny_folder}")
    tuned = howsure.load(f"hf:{tiny_folder}+{tmp_path}")
    state = {name: p for name, p in wrapped.named_parameters() if "layers.0" in name and "lora_" in name}
    a = next(p for name, p in state.items() if "lora_A" in name)
    b = next(p for name, p in state.items() if "lora_B" in name)
    delta = (b @ a * 2.0).detach().numpy()
    found = (
        (tuned.network.model.layers[0].self_attn.q_proj.weight - plain.network.model.layers[0].self_attn.q_proj.weight)
        .detach()
        .numpy()
    )
    assert np.abs(found - delta).max() < 1e-5
    items = [("the sky", [" is blue"])]
    assert not np.allclose(tuned.score(items)[0][0].logprobs, plain.score(items)[0][0].logprobs, atol=1e-3)
    assert tuned.fingerprint()["adapter"] != plain.fingerprint()["weights"]


def test_an_adapter_alone_is_told_from_a_model(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint-5"
    checkpoint.mkdir()
    (checkpoint / "adapter_config.json").write_text('{"base_model_name_or_path": "org/base"}')
    with pytest.raises(InputError, match=r"LoRA adapter.*write hf:org/base\+.*checkpoint-5"):
        howsure.load(f"hf:{tmp_path}", lazy=True)


def test_half_an_adapter_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model
    from safetensors.torch import load_file, save_file
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(tiny_folder)
    get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "adapter_model.safetensors")
    tensors.pop(sorted(tensors)[0])
    save_file(tensors, tmp_path / "adapter_model.safetensors")
    with pytest.raises(WeightsError, match="not whole"):
        howsure.load(f"hf:{tiny_folder}+{tmp_path}")


def test_the_fingerprint_knows_the_files_not_the_place(copy: Path, tiny_folder: Path) -> None:
    assert ModelFiles(str(copy)).fingerprint == ModelFiles(str(tiny_folder)).fingerprint
    change_weights(copy, lambda tensors: tensors["model.norm.weight"].add_(1e-3))
    assert ModelFiles(str(copy)).fingerprint != ModelFiles(str(tiny_folder)).fingerprint


def test_the_users_own_settings_of_transformers_stay(tiny_folder: Path) -> None:
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_info()
    try:
        howsure.load(f"hf:{tiny_folder}")
        assert logging.get_verbosity() == logging.INFO
        assert logging.is_progress_bar_enabled()
    finally:
        logging.set_verbosity(before)
