"""What is kept of episodes as they are played: steps, table, frames, what is known at the end, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from howsure.runs import Progress, RunWriter, Sample
from howsure.runs.files import storage_errors, write_atomic
from howsure.studies.trust.knowledge import read_knowledge
from howsure.studies.trust.play import Episode, Step, step_id
from howsure.studies.trust.replay import REPLAY, Frame, write_replay
from howsure.studies.trust.table import StepTable

FRAMES, GROUNDING = "frames", "grounding"
OnStep = Callable[[Sample], None]


class Keeper(NamedTuple):
    """Where steps go as they come."""

    writer: RunWriter
    table: StepTable
    pages: Pages
    on_step: OnStep | None
    progress: Progress
    tally: StepTally

    def keep(self, step: Step) -> None:
        self.writer.append([step.sample])
        self.table.append(step.sample)
        self.pages.write(step.sample, step.picture.read())
        if self.on_step is not None:
            self.on_step(step.sample)
        self.progress.advance([step.sample.without_evidence()])

    def end(self, number: int, steps_left: int, frame: bytes) -> None:
        self.pages.end(number, frame)
        self.leave_out(steps_left)

    def leave_out(self, steps_left: int) -> None:
        if steps_left:
            self.tally.leave_out(steps_left)
            self.progress.advance([])


def gained_name(number: int) -> str:
    return f"{GROUNDING}/episode-{number}.txt"


def _gained_path(folder: Path, number: int) -> Path:
    return folder / gained_name(number)


def gained_after(folder: Path, number: int) -> list[str] | None:
    """What is known after an episode, where that was written down already."""
    path = _gained_path(folder, number)
    return read_knowledge(path, within=folder) if path.is_file() else None


def keep_gained(folder: Path, number: int, gained: Sequence[str]) -> None:
    """In a file that a later run can load as its grounding."""
    path = _gained_path(folder, number)
    with storage_errors(path):
        path.parent.mkdir(exist_ok=True)
    head = f"# What is known after episode {number}; --grounding takes this file.\n"
    write_atomic(path, (head + "".join(f"{one}\n" for one in gained)).encode("utf-8", errors="replace"))


class Pages:
    """The frames on the disk, and the replay that is made of them."""

    def __init__(self, folder: Path, wanted: bool) -> None:
        self.folder = folder
        self.wanted = wanted
        if wanted:
            with storage_errors(folder / FRAMES):
                (folder / FRAMES).mkdir(exist_ok=True)

    def write(self, sample: Sample, png: bytes) -> None:
        self.put(sample.id, png)

    def unseen(self, samples: Sequence[Sample]) -> frozenset[str]:
        """Those whose frame is not there: a crash may have come between a step and its frame."""
        return frozenset(sample.id for sample in samples if self.wanted and not self._path(sample.id).is_file())

    def keep(self, sample: Sample, episode: Episode) -> None:
        if sample.id in self.unseen([sample]):
            self.put(sample.id, episode.frame().read())

    def end(self, number: int, png: bytes) -> None:
        self.put(f"{_episode_id(number)}-end", png)

    def has_end(self, number: int) -> bool:
        return not self.wanted or self._path(f"{_episode_id(number)}-end").is_file()

    def write_replay(self, samples: Sequence[Sample]) -> None:
        if not self.wanted or (self.folder / REPLAY).is_file():
            return
        frames = []
        for sample, following in zip(samples, [*samples[1:], None], strict=True):
            frames.append(Frame(sample, self._path(sample.id)))
            number = sample.result["episode"]
            if following is None or following.result["episode"] != number:
                frames.append(Frame(sample, self._path(f"{_episode_id(number)}-end")))
        write_replay(self.folder / REPLAY, frames)

    def _path(self, name: str) -> Path:
        return self.folder / FRAMES / f"{name}.png"

    def put(self, name: str, png: bytes) -> None:
        if self.wanted:
            write_atomic(self._path(name), png)  # half a frame would pass for a frame when the run is taken up


def _episode_id(number: int) -> str:
    return step_id(number, 0).partition("-")[0]


class StepTally:
    """Counts steps, those that an ended episode leaves out among the done; shows T over the steps so far."""

    unit = " steps"

    def __init__(self) -> None:
        self.done = 0
        self._played = self._failed = self._on_path = self._judged = 0
        self._gains = [0.0, 0.0]

    def add(self, samples: Sequence[Sample]) -> None:
        for sample in samples:
            self.done += 1
            self._played += 1
            self._failed += sample.failed
            if not sample.failed:
                bits = [one["entropy_bits"] for one in sample.result["conditions"].values()]
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
