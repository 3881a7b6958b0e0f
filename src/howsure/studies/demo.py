"""The demo: every study once, on small data that comes with the package, and the theorem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

from howsure.models.contract import Model
from howsure.runs import Progress
from howsure.runs.files import storage_errors, to_json, write_atomic
from howsure.runs.run import prepared
from howsure.studies import registry
from howsure.studies.summary import Coverage, Figure, Summary
from howsure.studies.theorem import Theorem, theorem


class Done(NamedTuple):
    """What came of a study: its summary, and whether some samples failed."""

    summary: Any
    failed: bool


class Job(NamedTuple):
    """A study with the options of its demonstration, and what that takes."""

    study: str
    options: Any
    cost: dict[str, int]

    def run(self, out: Path, progress: Progress) -> Done:
        options = self.options.with_(out=out, progress=progress)
        with prepared(registry.study_named(self.study), options) as ready:
            result = ready.run()
        return Done(result.summary, result.failed)


@contextmanager
def demo_data() -> Iterator[Path]:
    """The folder of what comes with the package."""
    with as_file(files("howsure.data")) as folder:
        yield folder


def job_of(name: str, model: Model, data: Path) -> Job | None:
    """A study's part of the demo; None where it has none."""
    study = registry.study_named(name)
    options = study.demo(model, data)
    if options is None:
        return None
    with prepared(study, options) as ready:
        return Job(name, options, ready.cost())


def run_theorem(out: Path) -> tuple[Done, Theorem]:
    """A language of six words read by its own model; needs no other."""
    computed = theorem(seed=0)
    with storage_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / "theorem.json", to_json(computed.to_dict(), indent=2) + b"\n")
    return Done(_of_theorem(computed), False), computed


def _of_theorem(computed: Theorem) -> Summary:
    length = f"{computed.lengths[-1]:,}"
    figures = [Figure("entropy rate", computed.entropy_rate_bits, "bits per word, in closed form")]
    figures += [Figure(c.name, c.path_bits[-1], f"bits per word over {length} words") for c in computed.curves]
    coverage = Coverage(computed.paths, computed.paths)
    return Summary(study="theorem", coverage=coverage, headline=figures, notes=[])
