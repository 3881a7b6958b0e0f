"""What a run of trust keeps beside its samples: steps.csv, frames, a replay, and what each episode knew at its end.

steps.csv has a line per step, written as the steps come and read again by `howsure trust analyse`. What is missing is
an empty field. The four columns of the three entropies (bits) and of trust come last; the columns before them that are
not shared by all kinds of evidence are those of the kind that was asked for.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from howsure.measures import trust
from howsure.runs import Sample
from howsure.runs.files import csv_lines, storage_errors, write_atomic
from howsure.storage import read_regular
from howsure.studies.trust.episode import step_id
from howsure.studies.trust.knowledge import read_knowledge
from howsure.studies.trust.ratio import why_no_share
from howsure.studies.trust.record import TrustRecord
from howsure.studies.trust.steps import CONDITIONS, ENTROPY_COLUMNS

STEPS, FRAMES, REPLAY, GROUNDING = "steps.csv", "frames", "replay.gif", "grounding"
Samples = Sequence[Sample[TrustRecord]]

# -- steps.csv --------------------------------------------------------------------------------------------------------

SHARED = (
    "step",
    "timestamp",
    "agent_x",
    "agent_y",
    "agent_dir",
    "episode",
    "carrying",
    "action",
    "effect",
    "reward",
    "reached",
    "action_probability",
    "action_confidence",
    "on_shortest_path",
    "shortest_distance",
    "first_asked",
    "first_episode",
    "chain",
    "grounded",
    "instructed",
    "missing_entropies",
)
LAST = (*ENTROPY_COLUMNS, "trust_T")

FIGURES: dict[str, dict[str, str]] = {
    "scored": {"allowed_mass": "allowed_mass"},
    "logprobs": {
        "entropy_low": "low_bits",
        "entropy_high": "high_bits",
        "entropy_exact": "exact_bits",
        "unlisted": "unlisted",
        "entropy_mean": "mean_bits",
        "entropy_weighted": "weighted_bits",
        "entropy_decision": "decision_bits",
        "entropy_action": "action_entropy_bits",
    },
    "verbalized": {
        "executability": "executability",
        **{f"step{i}_action": f"step{i}_action" for i in (1, 2, 3)},
        **{f"entropy_step{i}": f"step{i}_bits" for i in (1, 2, 3)},
        **{f"sum_step{i}": f"step{i}_sum" for i in (1, 2, 3)},
    },
}
"""For each kind of evidence: a column, once for each condition, and the field of `ConditionRecord` that it holds."""


def columns(evidence: str) -> list[str]:
    """All columns of the table, in order."""
    own = [f"{name}_{condition.column}" for name in FIGURES[evidence] for condition in CONDITIONS]
    return [*SHARED, *own, *(["trust_T_action"] if evidence == "logprobs" else []), *LAST]


def row(record: TrustRecord, evidence: str) -> dict[str, Any]:
    """A step as a line; None where something is missing."""
    answers = dict(zip(CONDITIONS, record.conditions.answers(), strict=True))
    cells: dict[str, Any] = {name: getattr(record, name, None) for name in SHARED}
    cells["carrying"] = record.carrying or "nothing"
    cells |= {"grounded": int(record.knowledge_count > 0), "instructed": int(record.instruction is not None)}
    cells["missing_entropies"] = sum(answer.entropy_bits is None for answer in answers.values())
    cells |= {name: None if cells[name] is None else int(cells[name]) for name in ("reached", "on_shortest_path")}
    for condition, answer in answers.items():
        cells |= {f"{name}_{condition.column}": getattr(answer, field) for name, field in FIGURES[evidence].items()}
        cells[f"entropy_{condition.column}"] = answer.entropy_bits
    if evidence == "logprobs":
        ratio = trust(*(answer.action_entropy_bits for answer in answers.values()))
        cells["trust_T_action"] = None if ratio is None or ratio != ratio else ratio
    return cells | {"trust_T": record.trust}


class StepTable:
    """The table on the disk: whole up to the last step, whenever one looks."""

    def __init__(self, folder: Path, evidence: str, kept: Samples) -> None:
        self.path = folder / STEPS
        self._evidence = evidence
        self._columns = columns(evidence)
        head = csv_lines([dict(zip(self._columns, self._columns, strict=True))], self._columns)
        rows = [row(sample.result, evidence) for sample in kept]
        write_atomic(self.path, head + csv_lines(rows, self._columns))
        with storage_errors(self.path):
            self._file = self.path.open("ab", buffering=0)

    def append(self, record: TrustRecord) -> None:
        # samples.jsonl is what a power cut must not harm; this table is written anew from it when a run is resumed.
        with storage_errors(self.path):
            self._file.write(csv_lines([row(record, self._evidence)], self._columns))

    def close(self) -> None:
        self._file.close()


# -- what is known at the end of an episode ---------------------------------------------------------------------------


def grounding_name(number: int) -> str:
    return f"{GROUNDING}/episode-{number}.txt"


def grounding_after(folder: Path, number: int) -> list[str] | None:
    """What is known after an episode, where that was written down already."""
    path = folder / grounding_name(number)
    return read_knowledge(path, within=folder) if path.is_file() else None


def write_grounding(folder: Path, number: int, knowledge: Sequence[str]) -> None:
    """In a file that a later run can load as its grounding."""
    path = folder / grounding_name(number)
    with storage_errors(path):
        path.parent.mkdir(exist_ok=True)
    head = f"# What is known after episode {number}; --grounding takes this file.\n"
    write_atomic(path, (head + "".join(f"{one}\n" for one in knowledge)).encode("utf-8", errors="replace"))


# -- frames and replay ------------------------------------------------------------------------------------------------

MILLISECONDS_A_STEP = 400
LAST_MILLISECONDS = 2000
MOST_FRAMES, MOST_FRAME_BYTES = 600, 32 << 20
LEAST_WIDTH, PLOT_HEIGHT, MARGIN = 420, 150, 34
COLOURS = {"X": (120, 120, 120), "X|S": (31, 110, 180), "X|L,S": (200, 60, 30)}


class Frames:
    """The frames on the disk, one before each step and one at the end of an episode, and the replay made of them."""

    def __init__(self, folder: Path, wanted: bool) -> None:
        self.folder = folder
        self.wanted = wanted
        if wanted:
            with storage_errors(folder / FRAMES):
                (folder / FRAMES).mkdir(exist_ok=True)

    def put(self, name: str, png: bytes) -> None:
        if self.wanted:
            write_atomic(self._path(name), png)  # half a frame would pass for a frame when the run is resumed

    def missing(self, names: Sequence[str]) -> frozenset[str]:
        """Those that are not there: a crash may have come between a step and its frame."""
        return frozenset(name for name in names if self.wanted and not self._path(name).is_file())

    def write_replay(self, samples: Samples) -> None:
        if not self.wanted or (self.folder / REPLAY).is_file():
            return
        frames = []
        for sample, following in zip(samples, [*samples[1:], None], strict=True):
            frames.append(Frame(sample.result, self._path(sample.id)))
            number = sample.result.episode
            if following is None or following.result.episode != number:
                frames.append(Frame(sample.result, self._path(end_name(number))))
        write_replay(self.folder / REPLAY, frames)

    def _path(self, name: str) -> Path:
        return self.folder / FRAMES / f"{name}.png"


def end_name(episode: int) -> str:
    return f"{step_id(episode, 0).partition('-')[0]}-end"


class Frame(NamedTuple):
    """A step and the file of the picture that belongs to it."""

    record: TrustRecord
    picture: Path


def write_replay(path: Path, frames: Sequence[Frame]) -> None:
    """An animated GIF of the steps, at most so many: the world as the model saw it, under it the entropies so far."""
    from PIL import Image

    from howsure.models.images import inspect_content

    shown = frames[:MOST_FRAMES]
    if not shown:
        return
    records = [frame.record for frame in shown]
    highest = max([1.0, *(bits for record in records for bits in _bits(record) if bits is not None)])
    pages = []
    for place, frame in enumerate(shown):
        png = read_regular(frame.picture, MOST_FRAME_BYTES, within=path.parent)
        world = inspect_content(png, str(frame.picture)).load()
        page = Image.new("RGB", (max(world.width, LEAST_WIDTH), world.height + PLOT_HEIGHT), "white")
        page.paste(world, ((page.width - world.width) // 2, 0))
        page.paste(_plot(_of_episode(records, place), highest, page.width), (0, world.height))
        pages.append(page.quantize(128, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE))
    content = io.BytesIO()
    durations = [MILLISECONDS_A_STEP] * (len(pages) - 1) + [LAST_MILLISECONDS]
    pages[0].save(content, "GIF", save_all=True, append_images=pages[1:], duration=durations, loop=0)
    write_atomic(path, content.getvalue())


def _of_episode(records: Sequence[TrustRecord], place: int) -> list[TrustRecord]:
    """The steps of the same episode up to this one."""
    return [record for record in records[: place + 1] if record.episode == records[place].episode]


def _bits(record: TrustRecord) -> list[float | None]:
    return [answer.entropy_bits for answer in record.conditions.answers()]


def _plot(records: Sequence[TrustRecord], highest: float, width: int) -> Any:
    """The entropies over the steps; a missing one leaves a gap."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (width, PLOT_HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(11)
    last = records[-1]
    left, right, top, bottom = MARGIN, width - 10, 38, PLOT_HEIGHT - 18
    for part in (0.0, 0.5, 1.0):
        y = bottom - part * (bottom - top)
        draw.line((left, y, right, y), fill=(225, 225, 225))
        draw.text((left - 4, y), f"{part * highest:.1f}", fill=(90, 90, 90), font=font, anchor="rm")
    steps = max(20, len(records))
    x = [left + (right - left) * (i + 0.5) / steps for i in range(len(records))]
    lines = zip(*(_bits(record) for record in records), strict=True)
    place = float(left)
    for condition, bits in zip(CONDITIONS, lines, strict=True):
        colour = COLOURS[condition.value]
        points = [None if v is None else (x[i], bottom - v / highest * (bottom - top)) for i, v in enumerate(bits)]
        for a, b in pairwise(points):
            if a is not None and b is not None:
                draw.line((*a, *b), fill=colour, width=2)
        for point in points:
            if point is not None:
                draw.ellipse((point[0] - 2, point[1] - 2, point[0] + 2, point[1] + 2), fill=colour)
        shown = "—" if bits[-1] is None else f"{bits[-1]:.3f}"
        label = f"{condition.entropy_name} {shown}"
        draw.text((place, 21), label, fill=colour, font=font)
        place += draw.textlength(label, font=font) + 18
    share = "—" if last.trust is None or why_no_share(last) else f"{last.trust:.3f}"
    words = f"episode {last.episode}, step {last.step}: {last.action or 'no action'}    T {share}    (bits)"
    draw.text((left, 4), words, fill=(20, 20, 20), font=font)
    return image


# -- progress ----------------------------------------------------------------------------------------------------------


class StepTally:
    """Counts steps, those that an ended episode leaves out among the done; shows T over the steps so far."""

    unit = " steps"

    def __init__(self) -> None:
        self.done = 0
        self._played = self._failed = self._on_path = self._judged = 0
        self._gains = [0.0, 0.0]

    def add(self, samples: Samples) -> None:
        for sample in samples:
            self.done += 1
            self._played += 1
            self._failed += sample.failed
            bits = [value for value in _bits(sample.result) if value is not None]
            if len(bits) == len(CONDITIONS):
                self._gains = [self._gains[0] + bits[0] - bits[1], self._gains[1] + bits[0] - bits[2]]
            if sample.outcome is not None and sample.outcome.correct is not None:
                self._judged += 1
                self._on_path += sample.outcome.correct

    def leave_out(self, steps: int) -> None:
        self.done += steps

    @property
    def text(self) -> str:
        scored = self._played - self._failed
        parts = [f"ΔH_S {self._gains[0] / scored:+.3f}, ΔH_L,S {self._gains[1] / scored:+.3f} bits"] if scored else []
        if self._judged:
            parts.append(f"{self._on_path / self._judged:.0%} on a shortest path")
        if self._failed:
            parts.append(f"{self._failed} incomplete")
        return ", ".join(parts)
