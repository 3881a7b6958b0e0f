"""From paths to a judged study: read the logs, score what has no score, propagate, judge.

Reading takes moments and needs no run folder. Reading conversations again with a model, or embedding them, takes
minutes: that is written to a run folder trajectory by trajectory, and taken up where it stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from howsure import wiring
from howsure.errors import InputError
from howsure.models.contract import Failure, Model, Rolling
from howsure.models.embedding import SentenceEmbedder
from howsure.runs import Here, Identity, NoProgress, Progress, Run, RunWriter, Sample, work_through
from howsure.runs.files import to_json, write_atomic
from howsure.studies.pairs import check_seed, open_models
from howsure.studies.trajectories import proxy
from howsure.studies.trajectories.distances import measure_distances
from howsure.studies.trajectories.document import document, preview
from howsure.studies.trajectories.judge import USUAL, Judging
from howsure.studies.trajectories.scores import propagation_row
from howsure.studies.trajectories.sources import PathLike, Reading, find_sources, read_sources
from howsure.studies.trajectories.summary import summarise
from howsure.studies.trajectories.table import write_tables
from howsure.studies.trajectories.turns import Problem, Said, Trajectory

RESULTS = "results.json"
TOKENS_AT_ONCE = 8192
"""What is read between two samples on the disk, roughly: the most that a crash can cost."""

RUNS_AT_ONCE = 64
"""The same for work that is not counted in tokens."""

SAID_CHARACTERS = 50_000
"""Of one message in a run folder: a tool may answer with a whole file, which nobody reads there."""


class Prepared(NamedTuple):
    """Everything that is known before a model is loaded."""

    readings: list[Reading]
    trajectories: list[Trajectory]
    problems: list[Problem]
    notes: list[str]
    model: Model | None
    rolling: Rolling
    embedder: SentenceEmbedder | None
    options: dict[str, Any]
    owned: bool

    @property
    def takes_long(self) -> bool:
        """Whether there is work that is worth a run folder."""
        return self.model is not None or self.embedder is not None

    def close(self) -> None:
        """Give back what was opened here."""
        if self.model is not None and self.owned:
            self.model.close()
        if self.embedder is not None:
            self.embedder.close()

    def to_read(self) -> list[int]:
        """The conversations that the model reads."""
        if self.model is None:
            return []
        return [i for i, one in enumerate(self.trajectories) if proxy.needs_proxy(one)]

    def cost(self) -> dict[str, int]:
        """What the study will take; with a model this tokenises every conversation that it reads."""
        total = {"trajectories": len(self.trajectories), "turns": sum(len(one.turns) for one in self.trajectories)}
        if self.model is None:
            return total
        chosen = [self.trajectories[i] for i in self.to_read()]
        found = [one for one in proxy.costs(chosen, self.model, self.rolling) if not isinstance(one, Failure)]
        return total | {
            "conversations_to_read": len(chosen),
            "tokens": sum(one.tokens for one in found),
            "tokens_run": sum(one.tokens_run for one in found),
        }


class Result(NamedTuple):
    """A finished study: the summary, the document of step 2 and 3, and the run folder where there is one."""

    summary: dict[str, Any]
    document: dict[str, Any]
    trajectories: list[Trajectory]
    run: Run | None

    @property
    def failed(self) -> bool:
        return bool(self.summary["problems"])

    def _repr_html_(self) -> str:
        return str(wiring.ask("html", self))


def prepare(
    paths: Sequence[PathLike],
    *,
    score_with: str | Model | None = None,
    distances: bool = False,
    tokens: bool = False,
    window: int | None = None,
    stride: int | None = None,
    jobs: int | None = None,
    for_a_run: bool = False,
    device: str | None = None,
    announce: Callable[[str], None] | None = None,
    **model_options: Any,
) -> Prepared:
    """Read the logs, and open the model without its weights; `for_a_run` if they are to go into a run folder."""
    sources, problems = find_sources(paths)
    lasting = for_a_run or score_with is not None or distances
    readings = read_sources(sources, with_tokens=tokens, with_digests=lasting, jobs=jobs)
    problems = problems + [problem for reading in readings for problem in reading.loaded.problems]
    trajectories = [one for reading in readings for one in reading.loaded.trajectories]
    if not trajectories:
        raise _nothing(problems, paths)
    options: dict[str, Any] = {"tokens": tokens, "distances": distances}
    model, rolling, owned = None, Rolling(), False
    if score_with is not None:
        chosen = {"device": device, "announce": announce, **model_options} if isinstance(score_with, str) else {}
        ((model, owned),) = open_models([score_with], chosen)
        proxy.require_conversations(model)
        rolling = model.rolling(Rolling(window, stride))
        options |= {"window": rolling.window, "stride": rolling.stride}
    return Prepared(
        readings,
        trajectories,
        problems,
        _about(readings),
        model,
        rolling,
        SentenceEmbedder(device=device, announce=announce) if distances else None,
        options,
        owned,
    )


def _about(readings: Sequence[Reading]) -> list[str]:
    """What readers of the figures should know about the files, though nothing is wrong with them."""
    notes = [note for reading in readings for note in reading.loaded.notes]
    others = sum(reading.loaded.passed_over is not None for reading in readings)
    what = "1 file in the folders holds" if others == 1 else f"{others:,} files in the folders hold"
    return notes + ([f"{what} something else than trajectories, and nothing was read from there"] if others else [])


def _nothing(problems: Sequence[Problem], paths: Sequence[PathLike]) -> InputError:
    if problems:
        others = len(problems) - 1
        more = f" ({others:,} more problem{'' if others == 1 else 's'})" if others else ""
        return InputError(f"there is no trajectory to analyse: {problems[0].sentence}{more}")
    named = ", ".join(str(path) for path in paths) or "nothing"
    return InputError(f"there is no trajectory to analyse in {named}")


def carry_out(
    prepared: Prepared,
    *,
    judging: Judging | None = USUAL,
    out: PathLike | None = None,
    verbose: bool = False,
    seed: int = 0,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Score what has no score, propagate, judge; into a run folder where `out` names one.

    Without `judging` the study ends with the scores of the runs.
    """
    check_seed(seed)
    if judging is not None:
        judging.check()
    if out is not None:
        return _into_run(prepared, out, judging, verbose, seed, retry_failed, progress or NoProgress())
    for batch in _batches(prepared):
        _work_out(prepared, batch)
    return _finished(prepared, prepared.trajectories, judging, verbose, seed)


def _into_run(
    prepared: Prepared,
    out: PathLike,
    judging: Judging | None,
    verbose: bool,
    seed: int,
    retry_failed: bool,
    progress: Progress,
) -> Result:
    """The same, each trajectory written as soon as it is worked out, and judged by what was written."""
    identity, ids = _identity(prepared, seed), [_id(i) for i in range(len(prepared.trajectories))]
    with RunWriter(out, identity, len(ids), source=_named(prepared), retry_failed=retry_failed) as writer:
        _load(prepared, [i for i, name in enumerate(ids) if name not in writer.done])
        batches = _batches(prepared)
        job = Here(lambda batch: _samples(prepared, batch))
        work_through(writer, ids, batches, job, progress, "trajectories", piece=lambda batch: batch)
        samples = sorted(writer.samples, key=lambda sample: sample.index)
        written = [msgspec.convert(sample.result, Trajectory) for sample in samples]
        result = _finished(prepared, written, judging, verbose, seed)
        write_atomic(writer.path / RESULTS, to_json(result.document, indent=2) + b"\n")
        write_tables(writer.path, result.trajectories)
        writer.finish(result.summary)
    return result._replace(run=Run(out))


def _load(prepared: Prepared, missing: Sequence[int]) -> None:
    """Weights, before the clock of the progress starts, and only if they are needed."""
    if prepared.model is not None and set(missing) & set(prepared.to_read()):
        prepared.model.load()
    if prepared.embedder is not None and missing:
        prepared.embedder.load()


def _id(index: int) -> str:
    return f"trajectory-{index}"


def _named(prepared: Prepared) -> str:
    names = list(dict.fromkeys(reading.source.set_name for reading in prepared.readings))
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def _identity(prepared: Prepared, seed: int) -> Identity:
    contents = hashlib.sha256(b"".join(reading.digest for reading in prepared.readings))
    model = prepared.model
    return Identity(
        study="trajectories",
        options=prepared.options | ({"embedder": prepared.embedder.fingerprint()} if prepared.embedder else {}),
        model={"name": "log"} if model is None else {"name": model.name, **model.fingerprint()},
        data={
            "fingerprint": f"sha256:{contents.hexdigest()}",
            "trajectories": len(prepared.trajectories),
            "problems": len(prepared.problems),
        },
        seed=seed,
    )


def _batches(prepared: Prepared) -> list[tuple[int, ...]]:
    """Neighbours that are worked on together: a pure function of the logs and the options."""
    sizes = [1.0 / RUNS_AT_ONCE] * len(prepared.trajectories)
    if prepared.model is not None and (chosen := prepared.to_read()):
        found = proxy.costs([prepared.trajectories[i] for i in chosen], prepared.model, prepared.rolling)
        for i, cost in zip(chosen, found, strict=True):
            sizes[i] = 0.0 if isinstance(cost, Failure) else cost.tokens_run / TOKENS_AT_ONCE
    batches: list[tuple[int, ...]] = []
    batch: list[int] = []
    full = 0.0
    for i, size in enumerate(sizes):
        batch.append(i)
        full += size
        if full >= 1.0:
            batches.append(tuple(batch))
            batch, full = [], 0.0
    return [*batches, tuple(batch)] if batch else batches


def _work_out(prepared: Prepared, batch: tuple[int, ...]) -> list[Trajectory]:
    """Scores and distances for some trajectories, where these are wanted."""
    chosen = [prepared.trajectories[i] for i in batch]
    if prepared.model is not None:
        unscored = [one for one in chosen if proxy.needs_proxy(one)]
        proxy.score_with(unscored, prepared.model, prepared.rolling, with_tokens=prepared.options["tokens"])
    if prepared.embedder is not None:
        measure_distances(chosen, prepared.embedder)
    return chosen


def _samples(prepared: Prepared, batch: tuple[int, ...]) -> list[Sample]:
    return [_sample(i, one) for i, one in zip(batch, _work_out(prepared, batch), strict=True)]


def _sample(index: int, trajectory: Trajectory) -> Sample:
    """A trajectory with all that is needed to judge it; what was said in it is evidence, and stays on the disk."""
    kept = msgspec.structs.replace(trajectory, said=[], turns=[_shortened(turn) for turn in trajectory.turns])
    unread = next((turn for turn in trajectory.turns if turn.reason == proxy.UNREAD), None)
    return Sample(
        _id(index),
        index,
        msgspec.to_builtins(kept),
        {"said": [_message(said) for said in trajectory.said]} if trajectory.said else {},
        reason="unsupported" if trajectory.unsupported else proxy.UNREAD if unread else None,
        detail=trajectory.unsupported or (unread.detail if unread else None),
    )


def _message(said: Said) -> dict[str, Any]:
    """One message as evidence; one that was cut says how many characters it had."""
    row: dict[str, Any] = {"role": said.role, "text": said.text[:SAID_CHARACTERS]}
    if said.turn is not None:
        row["turn"] = said.turn
    return row | ({"characters": len(said.text)} if len(said.text) > SAID_CHARACTERS else {})


def _shortened(turn: Any) -> Any:
    return msgspec.structs.replace(turn, content=preview(turn), calls=())


def _finished(
    prepared: Prepared, trajectories: list[Trajectory], judging: Judging | None, verbose: bool, seed: int
) -> Result:
    loaded = [reading.loaded for reading in prepared.readings]
    found = document(loaded, trajectories, verbose=verbose)
    for row, trajectory in zip(found["results"], trajectories, strict=True):
        row["propagation"] = propagation_row(trajectory, verbose=verbose)
    unread = [problem for one in trajectories for problem in proxy.problems_of(one)]
    summary = summarise(trajectories, [*prepared.problems, *unread], prepared.notes, judging, seed=seed)
    return Result(summary, found, trajectories, None)
