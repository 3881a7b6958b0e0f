"""Before any work: does the model behind a server see at all?

A server takes the name of a text model as gladly, and refuses every screen, one after the other, each as often as a
fault that passes is asked again. Ten thousand screens later there would be an accuracy of 0 %.
"""

from __future__ import annotations

import io
import re

from howsure.errors import MissingCapability
from howsure.models.contract import Message, Model
from howsure.models.images import Picture

BLANK_SIDE_PX = 224
_OF_IMAGES = re.compile(r"image|vision|multi-?modal", re.I)


def check_sight(model: Model) -> None:
    """Show a blank picture, and raise in one sentence where the server says that it takes none.

    Only a refusal that speaks of images counts: another fault may pass, and is for the samples to meet.
    """
    shown = (Message("user", "What is this?", (_blank(),)),)
    answer = model.generate([shown], max_tokens=16, top_logprobs=None)[0]
    if answer.failure is not None and _OF_IMAGES.search(answer.failure):
        raise MissingCapability(
            f"grounding needs a model that sees, and {model.name!r} refuses images ({answer.failure}); "
            "take an image-text model, or ocr"
        )


def _blank() -> Picture:
    from PIL import Image

    size = (BLANK_SIDE_PX, BLANK_SIDE_PX)
    content = io.BytesIO()
    Image.new("RGB", size, "white").save(content, "PNG")
    return Picture.made(content.getvalue(), "of the probe", size)
