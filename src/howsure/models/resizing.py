"""The size that the Qwen-VL kinds bring an image to: its shape kept as far as whole tokens allow, its area limited.

transformers has the same rule, in a module that needs torchvision, and a server's images are counted where neither is
installed; a test holds the two against each other.
"""

from __future__ import annotations

import math

from howsure.errors import UnusableImage

Size = tuple[int, int]
"""Width and height in pixels."""

MOST_ELONGATED = 200


def area_limited(size: Size, token_side: int, least_pixels: int, most_pixels: int) -> Size:
    """Width and height in multiples of a token's side, with an area between the two limits.

    >>> area_limited((1920, 1080), 32, 56 * 56, 1280 * 28 * 28)
    (1312, 736)
    """
    width, height = size
    if max(size) > MOST_ELONGATED * min(size):
        raise UnusableImage(f"an image of {width}×{height} pixels is more than {MOST_ELONGATED} times as long as wide")
    wide, high = (round(side / token_side) * token_side for side in size)
    if wide * high > most_pixels:
        shrink = math.sqrt(width * height / most_pixels)
        wide, high = (max(token_side, math.floor(side / shrink / token_side) * token_side) for side in size)
    elif wide * high < least_pixels:
        grow = math.sqrt(least_pixels / (width * height))
        wide, high = (math.ceil(side * grow / token_side) * token_side for side in size)
    return wide, high
