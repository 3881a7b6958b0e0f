"""How far long work is: a bar on a terminal, plain lines elsewhere, nothing where quiet was asked for."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from howsure.runs import NoProgress, Progress, Sample, Tally

SECONDS_BETWEEN_LINES = 10.0


def progress_for(console: Console, quiet: bool) -> Progress:
    if quiet:
        return NoProgress()
    return BarProgress(console) if console.is_terminal else LineProgress(console)


class Answers:
    """The running headline figure: the share right among the samples whose outcome is known."""

    unit = ""

    def __init__(self) -> None:
        self.done = self.failed = self.judged = self.correct = 0

    def add(self, samples: Sequence[Sample]) -> None:
        for sample in samples:
            self.done += 1
            self.failed += sample.failed
            if sample.outcome is not None and sample.outcome.correct is not None:
                self.judged += 1
                self.correct += sample.outcome.correct

    @property
    def text(self) -> str:
        parts = []
        if self.judged:
            parts.append(f"{self.correct / self.judged:.1%} right")
        if self.failed:
            parts.append(f"{self.failed} failed")
        return ", ".join(parts)


class BarProgress:
    """A bar with rate, time left and the running figure."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def start(self, what: str, total: int, kept: Sequence[Sample], tally: Tally | None = None) -> None:
        self._tally = tally or Answers()
        self._tally.add(kept)
        self._bar = RichProgress(
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figure]}", markup=False),
            console=self._console,
        )
        self._began, self._kept = time.monotonic(), self._tally.done
        self._bar.start()
        self._task = self._bar.add_task(what, total=total, completed=self._kept, rate="", figure=self._tally.text)

    def advance(self, samples: Sequence[Sample]) -> None:
        self._tally.add(samples)
        rate = (self._tally.done - self._kept) / max(time.monotonic() - self._began, 1e-9)
        shown = f"{rate:.1f}{self._tally.unit}/s"
        self._bar.update(self._task, completed=self._tally.done, rate=shown, figure=self._tally.text)

    def stop(self) -> None:
        self._bar.stop()


class LineProgress:
    """A line every ten seconds, and one at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def start(self, what: str, total: int, kept: Sequence[Sample], tally: Tally | None = None) -> None:
        self._tally = tally or Answers()
        self._tally.add(kept)
        self._what, self._total, self._kept = what, total, self._tally.done
        self._began = self._last = time.monotonic()
        self._untold = False
        if kept and self._kept >= total:
            self._say(f"{self._what}: already complete")
        elif kept:
            self._say(f"{self._what}: resuming at {self._kept} of {total}{self._tally.unit}")

    def advance(self, samples: Sequence[Sample]) -> None:
        self._tally.add(samples)
        self._untold = True
        finished = self._tally.done >= self._total
        if finished or time.monotonic() - self._last >= SECONDS_BETWEEN_LINES:
            self._tell(goes_on=not finished)

    def stop(self) -> None:
        """What failed is not done, so the end need not have been reached."""
        if self._untold:
            self._tell(goes_on=False)

    def _tell(self, goes_on: bool) -> None:
        self._last, self._untold = time.monotonic(), False
        done, unit = self._tally.done, self._tally.unit
        rate = (done - self._kept) / max(self._last - self._began, 1e-9)
        left = f", about {(self._total - done) / rate:.0f} s left" if goes_on and rate else ""
        figure = f", {self._tally.text}" if self._tally.text else ""
        self._say(f"{self._what}: {done} of {self._total}{unit}, {rate:.1f}{unit}/s{left}{figure}")

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)
