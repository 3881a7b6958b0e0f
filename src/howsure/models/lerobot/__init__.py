"""LeRobot's Pi0Fast policies, read without LeRobot: the PaliGemma inside the policy answers the questions.

A policy of type `pi0_fast` (LeRobot from 0.4 on) or `pi0fast` (before) is a PaliGemma that was trained to write
actions. Questions go where its task description goes, into the prefix that attends both ways, after the image; choices
go where its actions go, into the causal suffix. Images are brought to size exactly as the policy does it in training.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

from howsure.errors import InputError, WeightsError
from howsure.models.contract import ModelOptions
from howsure.models.hf.files import ModelFiles
from howsure.models.hf.image_text import HFImageTextModel
from howsure.models.hf.pixels import ImageInput, Pixels
from howsure.models.lerobot.pixels import policy_pixels
from howsure.models.lerobot.weights import Checkpoint
from howsure.models.registry import ModelName

PLACES = ("", "pretrained_model", "checkpoints/last/pretrained_model")
"""Where a policy lies in a folder: itself, one step of a training, or the last step of a training's output."""


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
        from howsure.models.hf.loading import load_tokenizer
        from howsure.models.text import TextEncoder

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


class PolicyImageInput(ImageInput):
    """Images as the policy sees them, instead of as PaliGemma's own processor would make them."""

    def __init__(self, checkpoint: Checkpoint, config: Any, tokenizer: Any) -> None:
        super().__init__(checkpoint.files, config, tokenizer)
        self._checkpoint = checkpoint

    @property
    def image_processor(self) -> Any:
        return None

    def pixels_of(self, image: Any, name: str) -> Pixels:
        return {"pixel_values": policy_pixels(image, self._checkpoint)}


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
