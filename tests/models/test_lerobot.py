"""Pi0Fast policies: every tensor in its place, images as in training, scores equal to a forward of one choice."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import howsure
from howsure.errors import InputError, MissingCapability, WeightsError
from howsure.models.contract import ScoreItem
from howsure.models.hf.files import ModelFiles
from howsure.models.images import Picture, inspect_picture
from tiny_vision import NAMES_IN_POLICY, build_pi0_fast, pi0_fast_config, picture

TOLERANCE = 1e-4
PREFIX = "what is the robot doing?\nAnswer:"
CHOICES = (" the dog", " jumps over", " the lazy dog is blue")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("policies")
    return {kind: build_pi0_fast(root / kind, kind=kind) for kind in NAMES_IN_POLICY}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Picture]:
    root = tmp_path_factory.mktemp("pictures")
    sizes = [(320, 240), (100, 177), (224, 224)]
    return [inspect_picture(picture(root / f"{i}.png", *size, seed=i)) for i, size in enumerate(sizes)]


@pytest.fixture(params=sorted(NAMES_IN_POLICY))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


# -- an independent reference -------------------------------------------------------------------------------------


@functools.cache
def network_of(folder: Path) -> tuple[Any, Any]:
    """The PaliGemma put together by hand from the policy's file, in double precision."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoTokenizer, PaliGemmaForConditionalGeneration

    kind = json.loads((folder / "config.json").read_text())["type"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = PaliGemmaForConditionalGeneration(pi0_fast_config(len(tokenizer))).double().eval()
    stored = load_file(folder / "model.safetensors")
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(stored[NAMES_IN_POLICY[kind](name)])
    return network, tokenizer


def pixels_in_training(seen: Picture, kind: str) -> Any:
    """Step by step as the policy's documentation has it: [0, 1], fitted into 224 × 224, filled up, times 2 minus 1."""
    import torch
    from PIL import Image

    image = torch.tensor(np.array(Image.open(seen.path).convert("RGB")), dtype=torch.float32).permute(2, 0, 1) / 255
    height, width = image.shape[1:]
    ratio = max(width / 224, height / 224)
    size = (int(height / ratio), int(width / ratio))
    small = torch.nn.functional.interpolate(image[None], size=size, mode="bilinear", align_corners=False)[0]
    border = {"pi0_fast": -1.0, "pi0fast": 0.0}[kind]
    canvas = torch.full((3, 224, 224), border)
    top, left = 224 - size[0], 224 - size[1]
    if kind == "pi0_fast":
        top, left = top // 2, left // 2
    canvas[:, top : top + size[0], left : left + size[1]] = small
    return (canvas * 2 - 1)[None]


def reference(folder: Path, prefix: str, continuation: str, seen: Picture | None) -> np.ndarray:
    import torch

    network, tokenizer = network_of(folder)
    kind = json.loads((folder / "config.json").read_text())["type"]
    words = tokenizer("<s>" + prefix, add_special_tokens=False)["input_ids"]
    whole = tokenizer("<s>" + prefix + continuation, add_special_tokens=False)["input_ids"]
    image = [] if seen is None else [network.config.image_token_id] * 256
    ids = torch.tensor([image + whole])
    start = len(image) + len(words)
    types = torch.tensor([[0] * start + [1] * (ids.shape[1] - start)])
    extra = {} if seen is None else {"pixel_values": pixels_in_training(seen, kind).double()}
    with torch.inference_mode():
        logits = network(input_ids=ids, token_type_ids=types, **extra).logits[0]
    logprobs = torch.log_softmax(logits, dim=-1)
    return np.array([float(logprobs[i - 1, ids[0, i]]) for i in range(start, ids.shape[1])])


def test_scores_are_those_of_one_choice_at_a_time(kind: str, folders, pictures) -> None:
    model = howsure.load(f"lerobot:{folders[kind]}")
    items = [ScoreItem(PREFIX, CHOICES, seen) for seen in (*pictures, None)]
    for item, scored in zip(items, model.score(items), strict=True):
        for continuation, evidence in zip(item.continuations, scored, strict=True):
            expected = reference(folders[kind], PREFIX, continuation, item.image)
            assert evidence.text == continuation
            assert np.abs(evidence.logprobs - expected).max() < TOLERANCE
    assert model.counters.images_run == 3
    assert model.scorer.way == "packed"


def test_images_are_what_the_policy_was_trained_with(kind: str, folders, pictures) -> None:
    model = howsure.load(f"lerobot:{folders[kind]}", lazy=True)
    for seen in pictures:
        found = model.image_input.pixels(seen)["pixel_values"]
        assert found.shape == (1, 3, 224, 224)
        assert np.allclose(found, pixels_in_training(seen, kind), atol=1e-6)
    wide = model.image_input.pixels(pictures[0])["pixel_values"][0]
    border = {"pi0_fast": -3.0, "pi0fast": -1.0}[kind]
    assert bool((wide[:, 0] == border).all())
    square = model.image_input.pixels(pictures[2])["pixel_values"]
    assert -1 <= float(square.min()) < float(square.max()) <= 1


def test_pillow_resizes_where_the_policy_says_so(tmp_path: Path, pictures) -> None:
    from PIL import Image

    folder = build_pi0_fast(tmp_path, kind="pi0fast")
    edit_config(folder, interpolate_like_pi=True)
    found = howsure.load(f"lerobot:{folder}", lazy=True).image_input.pixels(pictures[0])["pixel_values"][0]
    small = Image.open(pictures[0].path).convert("RGB").resize((224, 168), Image.Resampling.BILINEAR)
    expected = np.asarray(small, dtype=np.float32).transpose(2, 0, 1) / 255 * 2 - 1
    assert np.allclose(found[:, 56:], expected, atol=1e-6)


# -- whole, or not at all -----------------------------------------------------------------------------------------


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_weights(folder: Path, change: Any) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def test_a_missing_tensor_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    """Each kind of tensor in turn: none may come out random."""
    names = [
        "model.multi_modal_projector.linear.bias", "model.language_model.norm.weight",
        "model.language_model.layers.1.mlp.up_proj.weight", "model.vision_tower.encoder.layers.0.self_attn.q_proj.bias",
        "model.vision_tower.post_layernorm.weight", "model.language_model.embed_tokens.weight",
        "model.vision_tower.embeddings.patch_embedding.weight",
    ]  # fmt: skip
    for name in names:
        folder = build_pi0_fast(tmp_path / name, kind=kind)
        edit_weights(folder, lambda tensors, name=name: tensors.pop(NAMES_IN_POLICY[kind](name)))
        with pytest.raises(WeightsError, match=name.removeprefix("model.").split(".")[-2]):
            howsure.load(f"lerobot:{folder}")


@pytest.mark.parametrize("part", ["language_model", "vision_tower"])
def test_a_file_that_lost_its_last_layer_is_no_smaller_model(part: str, tmp_path: Path, monkeypatch) -> None:
    from howsure.models import lerobot

    folder = build_pi0_fast(tmp_path)
    edit_weights(folder, lambda t: [t.pop(name) for name in list(t) if part in name and "layers.1." in name])
    monkeypatch.setitem(lerobot.LAYERS_BY_WIDTH, part, {32: 2})
    with pytest.raises(WeightsError, match=rf"missing keys {part}…layers.1"):
        howsure.load(f"lerobot:{folder}")


def test_an_unexpected_tensor_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    import torch

    prefix = NAMES_IN_POLICY[kind]("")
    for i, name in enumerate(
        ("model.gemma_expert.layers.0.weight", f"{prefix}model.language_model.layers.0.extra.weight")
    ):
        folder = build_pi0_fast(tmp_path / str(i), kind=kind)
        edit_weights(folder, lambda tensors, name=name: tensors.update({name: torch.zeros(2)}))
        with pytest.raises(WeightsError, match=r"unexpected keys .*(gemma_expert|extra)"):
            howsure.load(f"lerobot:{folder}")


def test_a_tensor_of_another_shape_is_refused(tmp_path: Path) -> None:
    import torch

    folder = build_pi0_fast(tmp_path)
    name = NAMES_IN_POLICY["pi0_fast"]("model.language_model.norm.weight")
    edit_weights(folder, lambda tensors: tensors.update({name: torch.zeros(7)}))
    with pytest.raises(WeightsError, match="norm.weight"):
        howsure.load(f"lerobot:{folder}")


@pytest.mark.parametrize(
    "name", ["embed_tokens.weight", "layers.0.self_attn.k_proj.weight", "embeddings.patch_embedding.weight"]
)
def test_shapes_that_no_network_has_are_refused(name: str, tmp_path: Path) -> None:
    import torch

    folder = build_pi0_fast(tmp_path)
    for shape in ((3,), (0, 32), (1, 1, 1, 1, 1)):
        edit_weights(folder, lambda t, shape=shape: t.update({k: torch.zeros(shape) for k in t if k.endswith(name)}))
        with pytest.raises(WeightsError):
            howsure.load(f"lerobot:{folder}")


def test_statistics_of_actions_are_passed_over_and_a_tied_head_may_be_stored(tmp_path: Path, pictures) -> None:
    import torch

    folder = build_pi0_fast(tmp_path / "plain")
    item = ScoreItem(PREFIX, CHOICES, pictures[0])
    expected = howsure.load(f"lerobot:{folder}").score([item])
    embed, head = (
        NAMES_IN_POLICY["pi0_fast"](n) for n in ("model.language_model.embed_tokens.weight", "lm_head.weight")
    )
    edit_weights(folder, lambda t: t.update({"normalize_inputs.buffer_observation_state.mean": torch.zeros(6)}))
    edit_weights(folder, lambda t: t.update({head: t[embed].clone()}))
    assert howsure.load(f"lerobot:{folder}").score([item]) == expected
    edit_weights(folder, lambda t: t.pop(embed))
    assert howsure.load(f"lerobot:{folder}").score([item]) == expected
    edit_weights(folder, lambda t: t.update({embed: t[head] + 1}))
    with pytest.raises(WeightsError, match="embed_tokens and lm_head differ"):
        howsure.load(f"lerobot:{folder}")


def test_the_real_policy_is_recognised_by_its_shapes(kind: str, tmp_path: Path) -> None:
    """PaliGemma-3B at 224 × 224, as in google/paligemma-3b-pt-224, without its weights."""
    import torch
    from transformers import PaliGemmaConfig, PaliGemmaForConditionalGeneration

    from howsure.models.lerobot import Checkpoint, _inner

    text = {"hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18, "num_attention_heads": 8}
    text |= {"num_key_value_heads": 1, "head_dim": 256, "vocab_size": 257152, "model_type": "gemma"}
    vision = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16}
    vision |= {"image_size": 224, "patch_size": 14, "projection_dim": 2048, "vision_use_head": False}
    real = PaliGemmaConfig(text_config=text, vision_config=vision, projection_dim=2048, image_token_index=257152)
    with torch.device("meta"):
        network = PaliGemmaForConditionalGeneration(real)
    shapes = {_inner(NAMES_IN_POLICY[kind](name)): tuple(t.shape) for name, t in network.state_dict().items()}
    checkpoint = Checkpoint(ModelFiles(str(build_pi0_fast(tmp_path, kind=kind))))
    checkpoint.__dict__["shapes"] = shapes
    found = checkpoint.paligemma_config()
    assert {name: getattr(found.text_config, name) for name in text} == text
    assert {name: getattr(found.vision_config, name) for name in vision} == vision
    assert (found.image_token_id, checkpoint.image_side) == (257152, 224)
    with torch.device("meta"):
        rebuilt = PaliGemmaForConditionalGeneration(found).state_dict()
    assert {n: t.shape for n, t in rebuilt.items()} == {n: t.shape for n, t in network.state_dict().items()}


# -- folders and what is in them ----------------------------------------------------------------------------------


def test_a_training_output_means_its_last_step(tmp_path: Path) -> None:
    build_pi0_fast(tmp_path / "checkpoints" / "last" / "pretrained_model")
    model = howsure.load(f"lerobot:{tmp_path}", lazy=True)
    assert model.takes_images
    assert not model.takes_chat
    assert model.fingerprint()["weights"].startswith("sha256:")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"type": "act"}, "of type 'act'"),
        ({"type": None}, "of type None"),
        ({"image_resolution": [112, 112]}, "made for 224×224"),
    ],
)
def test_a_configuration_that_cannot_be_used(tmp_path: Path, changes: dict[str, Any], words: str, pictures) -> None:
    folder = build_pi0_fast(tmp_path)
    edit_config(folder, **changes)
    with pytest.raises(WeightsError, match=words):
        howsure.load(f"lerobot:{folder}").image_input.pixels(pictures[0])


def test_folders_that_hold_no_policy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        howsure.load(f"lerobot:{tmp_path / 'gone'}")
    with pytest.raises(WeightsError, match="holds no config.json"):
        howsure.load(f"lerobot:{tmp_path}")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(WeightsError, match="cannot be read"):
        howsure.load(f"lerobot:{tmp_path}")
    (tmp_path / "config.json").write_text('{"type": "pi0_fast"}')
    with pytest.raises(WeightsError, match="no model.safetensors"):
        howsure.load(f"lerobot:{tmp_path}")
    (tmp_path / "model.safetensors").write_bytes(b"no tensors here")
    with pytest.raises(WeightsError, match="cannot be read as safetensors"):
        howsure.load(f"lerobot:{tmp_path}", tokenizer=str(tmp_path))


def test_the_tokenizer_may_lie_elsewhere(tmp_path: Path, folders, pictures) -> None:
    folder = build_pi0_fast(tmp_path, tokenizer=False)
    with pytest.raises(InputError, match=r"--tokenizer .*google/paligemma-3b-pt-224"):
        howsure.load(f"lerobot:{folder}")
    item = ScoreItem(PREFIX, CHOICES, pictures[0])
    model = howsure.load(f"lerobot:{folder}", tokenizer=str(folders["pi0_fast"]))
    assert model.score([item]) == howsure.load(f"lerobot:{folders['pi0_fast']}").score([item])
    assert "tokenizer" in model.fingerprint()


def test_it_does_not_generate(folders) -> None:
    model = howsure.load(f"lerobot:{folders['pi0_fast']}", lazy=True)
    with pytest.raises(MissingCapability):
        model.generate(["hello"])
