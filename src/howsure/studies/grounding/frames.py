"""The frames that models write coordinates in, the way from each to the 0–1000 frame that all is measured in, and the
prompts that ask for them: the published one in the model's frame, or a template of the user's own.

A model answers in the frame of its training, whatever it is asked for, so the frame belongs to the model. Which family
has which is taken from what its makers publish (model cards, cookbooks, repositories); a family that is not listed
here gets the default, 0–1000, and the run says that it is one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from howsure.errors import InputError
from howsure.models.images import Size, area_limited
from howsure.studies.grounding.answers.parse import Reading, is_ordered_by_name
from howsure.studies.grounding.record import FRAME

_IMAGE, _SEEN = "image", "seen"


class Frame(NamedTuple):
    """A way to write a place.

    `asks` is how a prompt names it, `example` the example's numbers in it, `means` what it is in words. `far` is the
    number at the far edge, or whose size it is counted in.
    """

    name: str
    asks: str
    example: tuple[str, str]
    means: str
    far: float | str = FRAME
    y_first: bool = False

    @property
    def needs_seen_size(self) -> bool:
        return self.far == _SEEN

    def to_thousand(
        self, x: float, y: float, *, image_size: Size, seen_size: Size | None = None
    ) -> tuple[float, float]:
        """The two numbers, in the order in which they are written, as x and y of the 0–1000 frame."""
        if self.y_first:
            x, y = y, x
        width, height = self._far_edges(image_size, seen_size)
        return x * FRAME / width, y * FRAME / height

    def place_of(
        self, reading: Reading, *, image_size: Size, seen_size: Size | None = None
    ) -> tuple[float, float] | None:
        """Where a reading clicks, in the 0–1000 frame; None where it names no point.

        An answer that names its axes, `x=12, y=34`, means them, in whatever order its frame has them.
        """
        if reading.x is None or reading.y is None:
            return None
        written = reading.x, reading.y
        if self.y_first and is_ordered_by_name(reading.form):
            written = reading.y, reading.x
        return self.to_thousand(*written, image_size=image_size, seen_size=seen_size)

    def _far_edges(self, image_size: Size, seen_size: Size | None) -> tuple[float, float]:
        if self.far == _IMAGE:
            return image_size
        if self.far != _SEEN:
            return float(self.far), float(self.far)
        if seen_size is None:
            raise InputError(
                f"the frame {self.name} counts in pixels of the image as the network gets it, and this model does not "
                "tell that size: say --max-pixels as the server has it, or choose another --frame"
            )
        return seen_size


_LIST = (
    Frame(
        "relative-1000",
        "relative (0-1000) pixel point coordinates",
        ("100", "200"),
        "thousandths of the image's width and height",
    ),
    Frame(
        "relative-999",
        "relative (0-999) pixel point coordinates",
        ("100", "200"),
        "0 to 999, where 999 is the far edge",
        far=999.0,
    ),
    Frame(
        "fraction",
        "relative (0-1) point coordinates",
        ("0.10", "0.20"),
        "fractions of the image's width and height",
        far=1.0,
    ),
    Frame(
        "percent",
        "relative (0-100) percent point coordinates",
        ("10.0", "20.0"),
        "hundredths of the image's width and height",
        far=100.0,
    ),
    Frame(
        "resized-pixels",
        "absolute pixel point coordinates",
        ("100", "200"),
        "pixels of the image as the network gets it, after it was brought to size",
        far=_SEEN,
    ),
    Frame(
        "pixels",
        "absolute pixel point coordinates",
        ("100", "200"),
        "pixels of the image as it is shown",
        far=_IMAGE,
    ),
    Frame(
        "relative-1000-yx",
        "relative (0-1000) pixel point coordinates, y before x,",
        ("200", "100"),
        "thousandths of the image's height and width, y first",
        y_first=True,
    ),
)
FRAMES: dict[str, Frame] = {frame.name: frame for frame in _LIST}
DEFAULT = FRAMES["relative-1000"]


def frame_named(name: str) -> Frame:
    """A frame by its name, or a sentence with all names."""
    if name not in FRAMES:
        raise InputError(f"there is no frame {name!r}; there are {', '.join(FRAMES)}")
    return FRAMES[name]


_CLICKERS = (
    ("UI-TARS-1.5", r"ui-tars-1[.-]5", "resized-pixels"),
    ("UI-TARS", r"ui-tars", "relative-1000"),
    ("OS-Atlas", r"os-atlas", "relative-1000"),
    ("UGround-V1", r"uground-v1", "relative-1000"),
    ("Aria-UI", r"aria-ui", "relative-1000"),
    ("CogAgent", r"cogagent", "relative-1000"),
    ("Aguvis", r"aguvis", "fraction"),
    ("ShowUI", r"showui", "fraction"),
    ("SeeClick", r"seeclick", "fraction"),
    ("Molmo", r"molmo(?!2|point|act)", "percent"),
)
"""Models trained to click, whose frame is not always that of the model that they were made from: these names come
first. UI-TARS-1.5 gives pixels of the resized image, and the UI-TARS before it thousandths. CogAgent writes three
digits, 000 to 999, and its makers divide by 1000."""

_ARCHITECTURES = {
    "qwen3_vl": "relative-1000",
    "qwen3_vl_moe": "relative-1000",
    "qwen2_5_vl": "resized-pixels",
    "qwen2_vl": "relative-1000",
    "internvl": "relative-1000",
    "internvl_chat": "relative-1000",
    "molmo": "percent",
}

_FAMILIES = (
    ("Qwen3-VL", r"qwen3-?vl", "relative-1000"),
    ("Qwen2.5-VL", r"qwen2[.-]?5-?vl", "resized-pixels"),
    ("Qwen2-VL", r"qwen2-?vl", "relative-1000"),
    ("InternVL", r"internvl", "relative-1000"),
    ("Gemini", r"gemini", "relative-1000-yx"),
)
"""For servers, which tell a name only. Gemini is documented to point as [y, x]."""


def frame_for(model_name: str, architecture: str | None) -> tuple[Frame, str]:
    """The frame that a model writes in, and from what that is known.

    >>> frame, why = frame_for("hf:Qwen/Qwen3-VL-8B-Instruct", "qwen3_vl")
    >>> frame.name, why
    ('relative-1000', 'from the architecture qwen3_vl')
    """
    name = model_name.lower().replace("_", "-")
    if known := _by_name(name, _CLICKERS):
        return known
    if architecture in _ARCHITECTURES:
        return FRAMES[_ARCHITECTURES[architecture]], f"from the architecture {architecture}"
    return _by_name(name, _FAMILIES) or (DEFAULT, "by default, since the model's own frame is not known")


def _by_name(name: str, families: tuple[tuple[str, str, str], ...]) -> tuple[Frame, str] | None:
    for family, pattern, frame in families:
        if re.search(rf"(?<![a-z0-9]){pattern}", name):
            return FRAMES[frame], f"from the model's name, of the family {family}"
    return None


QWEN25_TOKEN_SIDE = 28
QWEN25_LEAST_PIXELS = 56 * 56
QWEN25_MOST_PIXELS = 16_384 * 28 * 28
"""The limits in the preprocessor's published configuration, 3,136 and 12,845,056."""


def qwen25_seen_size(image_size: Size, max_pixels: int | None = None) -> Size:
    """Width and height to which a server of Qwen2.5-VL brings an image, if it limits pixels to `max_pixels`; 0, as
    None, is what the published configuration says."""
    most = max_pixels or QWEN25_MOST_PIXELS
    return area_limited(image_size, QWEN25_TOKEN_SIDE, QWEN25_LEAST_PIXELS, most)


# -- prompts --------------------------------------------------------------------------------------------------------

_QUESTION = "Given a GUI image, what are the {asks} for the element corresponding to the following instruction:"
_STEPS = "Think step-by-step, provide referring for the element first and then the grounded point coordinates."
MAY_REFUSE = "If the element is not on the screen, give (-1, -1) as the grounded point coordinates."

_PLACEHOLDER = re.compile(r"\{(instruction|frame)\}")
_BEGINS = re.compile(
    r"\bGiven\s+a\s+GUI\s+image,\s+what\s+are\s+the\s+[^:]{0,200}?for\s+the\s+element\s+"
    r"corresponding\s+to\s+the\s+following\s+instruction:"
)
_THOUSANDTHS = re.compile(r"(?<![\d.])0\s*(?:-|–|—|~|,|to|and|\.\.)\s*1000(?![\d.]*\d)", re.IGNORECASE)
_ENDS = re.compile(r"\bThink\s+step-by-step,\s+provide\s+referring\s+for\s+the\s+element\s+first\s")


def document_prompt(instruction: str, frame: Frame, *, may_refuse: bool = False) -> str:
    """The published prompt, its words about coordinates and the example's numbers as the frame has them."""
    steps = f"{_STEPS}\n{MAY_REFUSE}" if may_refuse else _STEPS
    x, y = frame.example
    return (
        f"{_QUESTION.format(asks=frame.asks)} {instruction}\n"
        "\n"
        f"{steps}\n"
        "\n"
        "### Output (Example)\n"
        '```referring\n"left arrow"\n```\n'
        f"```grounding\n({x}, {y})\n```"
    )


def fill(template: str, instruction: str, frame: Frame, may_refuse: bool = False) -> str:
    """A template with {instruction} and {frame} replaced; all other braces stay as they are, those of the
    instruction too."""
    if "{instruction}" not in template:
        raise InputError("the prompt template has no {instruction}: write it where the instruction belongs")
    values = {"instruction": instruction, "frame": frame.asks}
    filled = _PLACEHOLDER.sub(lambda match: values[match[1]], template)
    return f"{filled}\n\n{MAY_REFUSE}" if may_refuse else filled


def instruction_of(prompt: str) -> str | None:
    """The instruction in a prompt of the published form, wherever its lines break; None for any other text.

    The last words of the question end it: an instruction may quote them.
    """
    begins = _BEGINS.search(prompt)
    if begins is None:
        return None
    ends = list(_ENDS.finditer(prompt, begins.end()))
    if not ends:
        return None
    return prompt[begins.end() : ends[-1].start()].strip() or None


def asks_for_thousandths(prompt: str) -> bool:
    """Whether a text asks for coordinates from 0 to 1000, as the published prompt does."""
    return _THOUSANDTHS.search(prompt) is not None
