"""LeRobot's Pi0Fast policies, read without LeRobot: the PaliGemma inside the policy answers the questions.

A policy of type `pi0_fast` (LeRobot from 0.4 on) or `pi0fast` (before) is a PaliGemma that was trained to write
actions. Questions go where its task description goes, into the prefix that attends both ways, after the image; choices
go where its actions go, into the causal suffix. Images are brought to size exactly as the policy does it in training.
"""

from __future__ import annotations

import math
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from howsure.errors import InputError, WeightsError
from howsure.models.contract import ModelOptions
from howsure.models.hf.files import ModelFiles
from howsure.models.hf.image_text import HFImageTextModel
from howsure.models.hf.loading import check_dtype, explained, load_tokenizer, refuse_random_weights
from howsure.models.hf.pixels import ImageInput, Pixels
from howsure.models.registry import ModelName
from howsure.models.text import TextEncoder
from howsure.storage import shown_path

PLACES = ("", "pretrained_model", "checkpoints/last/pretrained_model")
"""Where a policy lies in a folder: itself, one step of a training, or the last step of a training's output."""

TYPES = ("pi0_fast", "pi0fast")
PREFIXES = ("model.paligemma_with_expert.paligemma.", "paligemma_with_expert.paligemma.", "model.pi0_paligemma.",
            "pi0_paligemma.")  # fmt: skip
NOT_OF_THE_NETWORK = ("normalize_inputs.", "normalize_targets.", "unnormalize_outputs.")
"""Statistics of states and actions, which early policies keep beside the weights; questions have neither."""

TIED = ("embed_tokens.weight", "lm_head.weight")
"""One matrix under two names, of which a file holds either or both."""

VISION_HEADS = 16
KEY_VALUE_HEADS = 1
LAYERS_BY_WIDTH = {"language_model": {2048: 18, 1024: 18}, "vision_tower": {1152: 27}}
"""Gemma 2B and 300M; SigLIP So400m."""
DEFAULT_TOKENIZER = "google/paligemma-3b-pt-224"
_LAYER = re.compile(r"layers\.(\d+)\.")


class Pi0FastModel(HFImageTextModel):
    """The language and vision model of a Pi0Fast policy."""

    @classmethod
    def open(cls, name: ModelName, options: ModelOptions) -> Pi0FastModel:
        folder = find_policy(Path(name.target).expanduser())
        files = ModelFiles(str(folder), trust_remote_code=options.trust_remote_code)
        Checkpoint(files)  # a folder that is no Pi0Fast policy is refused here
        return cls(str(name), lambda: files, None, options, built_in=False)

    @cached_property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.files)

    @cached_property
    def encoder(self) -> Any:
        if self._options.tokenizer is None and not (Path(self.files.path) / "tokenizer.json").is_file():
            raise InputError(
                f"{self.source} holds no tokenizer.json: pass --tokenizer with a folder or the name of the one that "
                f"the policy was trained with ({self.checkpoint.tokenizer_name})"
            )
        return TextEncoder(load_tokenizer(self.tokenizer_files, self._options.trust_remote_code))

    @cached_property
    def whole_config(self) -> Any:
        return self.checkpoint.paligemma_config()

    @cached_property
    def image_input(self) -> ImageInput:
        return PolicyImageInput(self.checkpoint, self.whole_config, self.encoder.tokenizer)

    @cached_property
    def network(self) -> Any:
        self._announce_loading()
        return self.checkpoint.load(self.whole_config, self.dtype).to(self.device).eval()


def find_policy(folder: Path) -> Path:
    """The folder that holds the policy's config.json."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {str(folder)!r}; lerobot: takes the folder of a LeRobot checkpoint")
    for place in PLACES:
        if os.path.lexists(folder / place / "config.json"):
            if not (folder / place).resolve().is_relative_to(folder.resolve()):
                raise InputError(f"{folder / place} leads out of {folder}: name the folder that it leads to")
            return folder / place
    raise WeightsError(
        f"{folder} holds no config.json, neither itself nor in {' or '.join(PLACES[1:])}: it is no LeRobot checkpoint"
    )


class PolicyImageInput(ImageInput):
    """Images as the policy sees them, instead of as PaliGemma's own processor would make them."""

    def __init__(self, checkpoint: Checkpoint, config: Any, tokenizer: Any) -> None:
        super().__init__(checkpoint.files, config, tokenizer)
        self._checkpoint = checkpoint

    @property
    def image_processor(self) -> Any:
        return None

    def pixels_of(self, image: Any, name: str) -> Pixels:
        """As each of LeRobot's two Pi0Fast policies does it: [1, 3, side, side].

        Both keep the sides' ratio, resize bilinearly without smoothing, and fill up. They differ in the filling:

        - `pi0fast` (up to 0.3) fills up at the left and the top with 0 of [0, 1], which is −1 for the network;
        - `pi0_fast` (from 0.4) centres the image and fills up with −1 before [0, 1] is stretched to [−1, 1], so the
          border is −3 for the network. That is not what one would choose, but it is what these policies were trained
          with.
        """
        import torch

        side = self._checkpoint.image_side
        ratio = max(image.size) / side
        width, height = (max(int(length / ratio), 1) for length in image.size)  # a very thin image keeps one pixel
        if self._checkpoint.resizes_like_pillow:
            from PIL import Image

            small = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR)) / np.float32(255)
            resized = torch.from_numpy(small).permute(2, 0, 1)[None]
        else:
            whole = torch.from_numpy(np.asarray(image, dtype=np.float32) / np.float32(255)).permute(2, 0, 1)[None]
            resized = torch.nn.functional.interpolate(whole, size=(height, width), mode="bilinear", align_corners=False)
        left, top = side - width, side - height
        if self._checkpoint.centred:
            borders = (left // 2, left - left // 2, top // 2, top - top // 2)
            filled = torch.nn.functional.pad(resized, borders, value=-1.0)
        else:
            filled = torch.nn.functional.pad(resized, (left, 0, top, 0), value=0.0)
        return {"pixel_values": filled * 2.0 - 1.0}


class Checkpoint:
    """`config.json` and `model.safetensors` of one policy: which PaliGemma lies in it, loaded whole or not at all.

    A policy's configuration names a variant but no sizes; they are read off the tensors' shapes. What shapes cannot
    tell (how many heads) is what LeRobot always builds: one key-value head, sixteen heads in the vision tower. Where a
    width is that of a known network, its depth must be too, so that a file which lost its last layers is not taken for
    a small one.
    """

    def __init__(self, files: ModelFiles) -> None:
        self.files = files
        self.folder = files.source
        self.config = files.config("config.json")
        kind = self.config.get("type")
        if kind not in TYPES:
            raise WeightsError(
                f"{self.folder}/config.json is of type {kind!r}; of LeRobot's policies, {' and '.join(TYPES)} can be "
                "asked"
            )
        self.weights = f"{files.lay_out_weights()}/model.safetensors"

    # -- what the configuration says --------------------------------------------------------------------------

    @property
    def centred(self) -> bool:
        return bool(self.config["type"] == "pi0_fast")

    @property
    def resizes_like_pillow(self) -> bool:
        return not self.centred and self.config.get("interpolate_like_pi") is True

    @property
    def tokenizer_name(self) -> str:
        name = self.config.get("text_tokenizer_name")
        return name if isinstance(name, str) else DEFAULT_TOKENIZER

    @cached_property
    def image_side(self) -> int:
        """The side of the images, which the vision tower must have been made for."""
        name = "image_resolution" if self.centred else "resize_imgs_with_padding"
        configured = self.config.get(name)
        side = self._vision_side if configured is None else configured
        if side not in (self._vision_side, [self._vision_side] * 2):
            raise WeightsError(
                f"{self.folder}: {name} is {configured}, but the vision tower in it is made for "
                f"{self._vision_side}×{self._vision_side}"
            )
        return self._vision_side

    # -- what the tensors say ---------------------------------------------------------------------------------

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor of the PaliGemma by its name there, without the policy's prefix."""
        with self._open() as file:
            stored = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        foreign = [name for name in stored if _inner(name) is None and not name.startswith(NOT_OF_THE_NETWORK)]
        if foreign:
            raise WeightsError(self._refusal("unexpected keys", foreign))
        return {inner: shape for name, shape in stored.items() if (inner := _inner(name)) is not None}

    def _open(self) -> Any:
        from safetensors import SafetensorError, safe_open

        try:
            return safe_open(self.weights, framework="pt")
        except (SafetensorError, OSError) as error:
            raise WeightsError(f"{shown_path(self.weights)} cannot be read as safetensors: {error}") from error

    def _shape(self, ending: str, dimensions: int, part: str = "") -> tuple[int, ...]:
        shapes = [shape for name, shape in self.shapes.items() if part in name and name.endswith(ending)]
        if not shapes or any(len(shape) != dimensions for shape in shapes):
            raise WeightsError(
                self._refusal("missing keys", [f"{part}…{ending}" if part else ending.removeprefix(".")])
            )
        return shapes[0]

    def _layers(self, part: str, width: int) -> int:
        numbers = {int(m[1]) for name in self.shapes if part in name and (m := _LAYER.search(name))}
        expected = LAYERS_BY_WIDTH[part].get(width, max(numbers, default=0) + 1)
        lost = [f"{part}…layers.{number}" for number in range(expected) if number not in numbers]
        if lost:
            raise WeightsError(self._refusal("missing keys", lost))
        return max(numbers) + 1

    @property
    def _vision_side(self) -> int:
        patch = self._shape("embeddings.patch_embedding.weight", 4)[2]
        places = self._shape("embeddings.position_embedding.weight", 2)[0]
        if math.isqrt(places) ** 2 != places:
            raise WeightsError(f"{self.folder}: {places} image positions are no square, so this is no PaliGemma")
        return patch * math.isqrt(places)

    def paligemma_config(self) -> Any:
        """transformers' configuration of the PaliGemma that fits the tensors."""
        from transformers import PaliGemmaConfig

        vocabulary, width = self._vocabulary()
        projected = self._shape("multi_modal_projector.linear.weight", 2)[0]
        return PaliGemmaConfig(
            text_config=self._text(vocabulary, width),
            vision_config=self._vision() | {"projection_dim": projected},
            projection_dim=projected,
            image_token_index=vocabulary,  # beyond the vocabulary, as LeRobot has it; no text can hold it
        )

    def _vocabulary(self) -> tuple[int, int]:
        shapes = {shape for name, shape in self.shapes.items() if name.endswith(TIED)}
        if len(shapes) != 1 or len(shape := shapes.pop()) != 2:
            raise WeightsError(self._refusal("missing or mismatched keys", list(TIED)))
        return shape[0], shape[1]

    def _text(self, vocabulary: int, width: int) -> dict[str, Any]:
        # One key-value head, so the keys are as wide as one head.
        head = self._shape("self_attn.k_proj.weight", 2, "language_model")[0]
        queries = self._shape("self_attn.q_proj.weight", 2, "language_model")[0]
        if not head or queries % head:
            raise WeightsError(f"{self.folder}: queries of width {queries} are no multiple of the keys' {head}")
        return {
            "model_type": "gemma",
            "vocab_size": vocabulary,
            "hidden_size": width,
            "intermediate_size": self._shape("mlp.gate_proj.weight", 2)[0],
            "num_hidden_layers": self._layers("language_model", width),
            "num_attention_heads": queries // head,
            "num_key_value_heads": KEY_VALUE_HEADS,
            "head_dim": head,
        }

    def _vision(self) -> dict[str, Any]:
        width, _, patch, _ = self._shape("embeddings.patch_embedding.weight", 4)
        if width % VISION_HEADS:
            raise WeightsError(
                f"{self.folder}: a vision tower of width {width} does not divide into {VISION_HEADS} heads"
            )
        return {
            "model_type": "siglip_vision_model",
            "hidden_size": width,
            "intermediate_size": self._shape("mlp.fc1.weight", 2)[0],
            "num_hidden_layers": self._layers("vision_tower", width),
            "num_attention_heads": VISION_HEADS,
            "image_size": self._vision_side,
            "patch_size": patch,
            "vision_use_head": any(".head." in name for name in self.shapes if "vision_tower" in name),
        }

    # -- the weights ------------------------------------------------------------------------------------------

    def load(self, config: Any, dtype: str) -> Any:
        """The network with every tensor from the file; a key too many or too few is refused by its name."""
        from transformers import PaliGemmaForConditionalGeneration

        tensors = self._tensors()
        if check_dtype(dtype) == "auto":  # that of the language layers: LeRobot keeps norms and patches in float32
            stored = next(tensor for name, tensor in tensors.items() if name.endswith("mlp.gate_proj.weight"))
            dtype = str(stored.dtype).removeprefix("torch.")
        with explained(self.files.path, "policy"):
            network, info = PaliGemmaForConditionalGeneration.from_pretrained(
                None, config=config, state_dict=tensors, dtype=dtype, output_loading_info=True,
                ignore_mismatched_sizes=True,
            )  # fmt: skip
        if info.get("unexpected_keys"):
            raise WeightsError(self._refusal("unexpected keys", sorted(info["unexpected_keys"])))
        refuse_random_weights(self.folder, info)
        return network

    def _tensors(self) -> dict[str, Any]:
        import torch

        with self._open() as file:
            names = {name: inner for name in file.keys() if (inner := _inner(name)) in self.shapes}  # noqa: SIM118
            tensors = {str(inner): file.get_tensor(name) for name, inner in names.items()}
        tied = [tensor for name, tensor in tensors.items() if name.endswith(TIED)]
        if len(tied) == 2 and not torch.equal(*tied):
            raise WeightsError(
                f"{self.folder}: embed_tokens and lm_head differ, but a PaliGemma has one matrix for both"
            )
        return tensors

    def _refusal(self, what: str, names: list[str]) -> str:
        shown = ", ".join(sorted(names)[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        return f"{shown_path(self.weights)} is not the PaliGemma of a Pi0Fast policy: {what} {shown}; it is not used"


def _inner(name: str) -> str | None:
    """A tensor's name within the PaliGemma; None for a tensor that belongs to something else."""
    return next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), None)
