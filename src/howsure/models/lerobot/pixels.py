"""Bringing an image to the policy's size, as each of LeRobot's two Pi0Fast policies does it.

Both keep the sides' ratio, resize bilinearly without smoothing, and fill up. They differ in the filling:

- `pi0fast` (up to 0.3) fills up at the left and the top with 0 of [0, 1], which is −1 for the network;
- `pi0_fast` (from 0.4) centres the image and fills up with −1 before [0, 1] is stretched to [−1, 1], so the border is
  −3 for the network. That is not what one would choose, but it is what these policies were trained with.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class HowToResize(Protocol):
    """What is read of a policy's configuration."""

    @property
    def centred(self) -> bool: ...

    @property
    def image_side(self) -> int: ...

    @property
    def resizes_like_pillow(self) -> bool: ...


def policy_pixels(image: Any, policy: HowToResize) -> Any:
    """An RGB image as [1, 3, side, side] for the network."""
    import torch

    side = policy.image_side
    width, height = _fitting(image.size, side)
    if policy.resizes_like_pillow:
        from PIL import Image

        small = torch.from_numpy(np.asarray(image.resize((width, height), Image.Resampling.BILINEAR)) / np.float32(255))
        resized = small.permute(2, 0, 1)[None]
    else:
        whole = torch.from_numpy(np.asarray(image, dtype=np.float32) / np.float32(255)).permute(2, 0, 1)[None]
        resized = torch.nn.functional.interpolate(whole, size=(height, width), mode="bilinear", align_corners=False)
    left, top = side - width, side - height
    if policy.centred:
        borders = (left // 2, left - left // 2, top // 2, top - top // 2)
        filled = torch.nn.functional.pad(resized, borders, value=-1.0)
    else:
        filled = torch.nn.functional.pad(resized, (left, 0, top, 0), value=0.0)
    return filled * 2.0 - 1.0


def _fitting(size: tuple[int, int], side: int) -> tuple[int, int]:
    """Width and height of the image when its longer side is `side`; a very thin image keeps one pixel."""
    width, height = size
    ratio = max(width / side, height / side)
    return max(int(width / ratio), 1), max(int(height / ratio), 1)
