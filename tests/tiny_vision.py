"""Tiny image-text checkpoints with random weights, saved as any checkpoint is and loaded by the same code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tiny import byte_level_tokenizer

TEXT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 1024,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
QWEN_TOKENS = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
TILE_TOKENS = ["<image>", "<fake_token_around_image>", "<global-img>"]
TILE_TOKENS += [f"<row_{r}_col_{c}>" for r in range(1, 5) for c in range(1, 5)]
CHAT = (
    "{% for m in messages %}<|turn|>{{ m.role }}: {% for part in m.content %}"
    "{% if part.type == 'image' %}IMAGE{% else %}{{ part.text }}{% endif %}{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant:\n{% endif %}"
)


def build_vision(kind: str, folder: Path, *, seed: int = 0) -> Path:
    """One of `KINDS`: network, tokenizer and image processor, saved into the folder."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network, tokenizer, image_processor = KINDS[kind]()
        for name, parameter in network.named_parameters():
            if "norm" not in name and not parameter.any():  # what starts at zero would hide mistakes
                torch.nn.init.normal_(parameter, std=0.1)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    image_processor.save_pretrained(folder)
    return folder


def picture(path: Path, width: int, height: int, seed: int = 0) -> Path:
    """Coloured noise over a gradient, so that every part of it is different."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    slope = np.linspace(0, 200, width)[None, :, None] * np.ones((height, 1, 3))
    pixels = slope + rng.integers(0, 56, (height, width, 3))
    Image.fromarray(pixels.astype(np.uint8)).save(path)
    return path


def _tokenizer(tokens: list[str], image: str) -> Any:
    tokenizer = byte_level_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": [*tokens, "<|turn|>"]})
    tokenizer.chat_template = CHAT.replace("IMAGE", image)
    return tokenizer


def _qwen_ids(tokenizer: Any) -> dict[str, int]:
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    return dict(zip(names, tokenizer.convert_tokens_to_ids(QWEN_TOKENS), strict=True))


def qwen3_vl() -> tuple[Any, Any, Any]:
    from transformers import Qwen2VLImageProcessorPil, Qwen3VLConfig, Qwen3VLForConditionalGeneration

    tokenizer = _tokenizer(QWEN_TOKENS, "<|vision_start|><|image_pad|><|vision_end|>")
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "mrope_interleaved": True, "rope_theta": 10000.0}
    vision = {
        "depth": 3, "hidden_size": 32, "intermediate_size": 48, "num_heads": 4, "out_hidden_size": 32, "patch_size": 8,
        "spatial_merge_size": 2, "temporal_patch_size": 2, "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0, 1], "initializer_range": 0.2,
    }  # fmt: skip
    text = TEXT | {"vocab_size": len(tokenizer), "rope_parameters": rope}
    config = Qwen3VLConfig(text_config=text, vision_config=vision, **_qwen_ids(tokenizer))
    return Qwen3VLForConditionalGeneration(config), tokenizer, _qwen_images(Qwen2VLImageProcessorPil, 8)


def qwen2_5_vl() -> tuple[Any, Any, Any]:
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2VLImageProcessorPil

    tokenizer = _tokenizer(QWEN_TOKENS, "<|vision_start|><|image_pad|><|vision_end|>")
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0}
    vision = {
        "depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 4, "out_hidden_size": 32, "patch_size": 8,
        "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 32, "fullatt_block_indexes": [1],
        "initializer_range": 0.2,
    }  # fmt: skip
    text = TEXT | {"vocab_size": len(tokenizer), "rope_parameters": rope}
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, **_qwen_ids(tokenizer))
    return Qwen2_5_VLForConditionalGeneration(config), tokenizer, _qwen_images(Qwen2VLImageProcessorPil, 8)


def _qwen_images(kind: Any, patch: int) -> Any:
    side = 2 * patch
    return kind(
        patch_size=patch, merge_size=2, temporal_patch_size=2,
        size={"shortest_edge": 4 * side**2, "longest_edge": 64 * side**2},
    )  # fmt: skip


def paligemma(language: str = "gemma") -> tuple[Any, Any, Any]:
    from transformers import PaliGemmaConfig, PaliGemmaForConditionalGeneration, SiglipImageProcessorPil

    tokenizer = _tokenizer(["<image>"], "<image>")
    config = PaliGemmaConfig(
        text_config=TEXT | {"model_type": language, "vocab_size": len(tokenizer), "num_key_value_heads": 1},
        vision_config=_siglip() | {"projection_dim": 32, "vision_use_head": False},
        projection_dim=32,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    processor = SiglipImageProcessorPil(size={"height": 32, "width": 32}, image_seq_length=16)
    return PaliGemmaForConditionalGeneration(config), tokenizer, processor


def paligemma2() -> tuple[Any, Any, Any]:
    """With Gemma 2 inside: sliding windows, eager attention, and soft caps that the whole leaves off its logits."""
    return paligemma("gemma2")


def _siglip() -> dict[str, Any]:
    return {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32,
        "patch_size": 8, "model_type": "siglip_vision_model",
    }  # fmt: skip


def idefics3() -> tuple[Any, Any, Any]:
    from transformers import Idefics3Config, Idefics3ForConditionalGeneration, Idefics3ImageProcessorPil

    config, tokenizer = _tiled(Idefics3Config, "idefics3_vision")
    return Idefics3ForConditionalGeneration(config), tokenizer, _tiles(Idefics3ImageProcessorPil)


def smolvlm() -> tuple[Any, Any, Any]:
    from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration, SmolVLMImageProcessorPil

    config, tokenizer = _tiled(SmolVLMConfig, "smolvlm_vision")
    return SmolVLMForConditionalGeneration(config), tokenizer, _tiles(SmolVLMImageProcessorPil)


def _tiled(kind: Any, vision_kind: str) -> tuple[Any, Any]:
    tokenizer = _tokenizer(TILE_TOKENS, "<image>")
    config = kind(
        text_config=TEXT | {"model_type": "llama", "vocab_size": len(tokenizer)},
        vision_config=_siglip() | {"model_type": vision_kind, "initializer_range": 0.2},
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        pad_token_id=0,
    )
    return config, tokenizer


def _tiles(kind: Any) -> Any:
    return kind(size={"longest_edge": 64}, max_image_size={"longest_edge": 32}, do_image_splitting=True)


def llava() -> tuple[Any, Any, Any]:
    from transformers import CLIPImageProcessorPil, LlavaConfig, LlavaForConditionalGeneration

    tokenizer = _tokenizer(["<image>"], "<image>\n")
    config = LlavaConfig(
        text_config=TEXT | {"model_type": "llama", "vocab_size": len(tokenizer)},
        vision_config=_siglip() | {"model_type": "clip_vision_model", "projection_dim": 32},
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=16,
    )
    processor = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return LlavaForConditionalGeneration(config), tokenizer, processor


def gemma3() -> tuple[Any, Any, Any]:
    """A kind that is not in the table of families, and whose image tokens see each other both ways."""
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3ImageProcessorPil

    tokenizer = _tokenizer(["<image_soft_token>", "<start_of_image>", "<end_of_image>"], "<start_of_image>")
    ids = tokenizer.convert_tokens_to_ids(["<image_soft_token>", "<start_of_image>", "<end_of_image>"])
    config = Gemma3Config(
        text_config=TEXT | {"model_type": "gemma3_text", "vocab_size": len(tokenizer), "sliding_window": 512},
        vision_config=_siglip() | {"vision_use_head": False},
        mm_tokens_per_image=4,
        image_token_index=ids[0], boi_token_index=ids[1], eoi_token_index=ids[2],
    )  # fmt: skip
    processor = Gemma3ImageProcessorPil(size={"height": 32, "width": 32})
    return Gemma3ForConditionalGeneration(config), tokenizer, processor


KINDS = {
    "qwen3_vl": qwen3_vl,
    "qwen2_5_vl": qwen2_5_vl,
    "paligemma": paligemma,
    "idefics3": idefics3,
    "smolvlm": smolvlm,
    "llava": llava,
}


# -- Pi0Fast ------------------------------------------------------------------------------------------------------


def build_pi0_fast(folder: Path, *, kind: str = "pi0_fast", seed: int = 0, tokenizer: bool = True) -> Path:
    """A tiny policy as LeRobot writes it: a configuration and one file of tensors, named as transformers did then."""
    import json

    import torch
    from safetensors.torch import save_file
    from transformers import PaliGemmaForConditionalGeneration

    words = _tokenizer([], "")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = PaliGemmaForConditionalGeneration(pi0_fast_config(len(words)))
        for name, parameter in network.named_parameters():
            if "norm" not in name and not parameter.any():
                torch.nn.init.normal_(parameter, std=0.1)
    folder.mkdir(parents=True, exist_ok=True)
    rename = NAMES_IN_POLICY[kind]
    tensors = {rename(name): tensor.clone() for name, tensor in network.state_dict().items() if "lm_head" not in name}
    save_file(tensors, folder / "model.safetensors")
    size = {"pi0_fast": "image_resolution", "pi0fast": "resize_imgs_with_padding"}[kind]
    config = {"type": kind, size: [224, 224], "paligemma_variant": "gemma_2b", "n_obs_steps": 1, "device": "cpu"}
    (folder / "config.json").write_text(json.dumps(config))
    if tokenizer:
        words.save_pretrained(folder)
    return folder


def pi0_fast_config(vocabulary: int) -> Any:
    from transformers import PaliGemmaConfig

    vision = _siglip() | {"image_size": 224, "patch_size": 14, "num_attention_heads": 16, "vision_use_head": False}
    return PaliGemmaConfig(
        text_config={k: v for k, v in TEXT.items() if k != "max_position_embeddings"}
        | {"model_type": "gemma", "vocab_size": vocabulary, "num_key_value_heads": 1},
        vision_config=vision | {"projection_dim": 32},
        projection_dim=32,
        image_token_index=vocabulary,
    )


def _new_name(name: str) -> str:
    inner = name.replace("model.vision_tower.", "model.vision_tower.vision_model.")
    return f"model.paligemma_with_expert.paligemma.{inner}"


def _old_name(name: str) -> str:
    inner = name.replace("model.vision_tower.", "vision_tower.vision_model.")
    inner = inner.replace("model.language_model.", "language_model.model.").replace("model.multi_modal", "multi_modal")
    return f"model.pi0_paligemma.{inner}"


NAMES_IN_POLICY = {"pi0_fast": _new_name, "pi0fast": _old_name}
