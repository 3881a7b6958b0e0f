"""From paths to a judged study: read the logs, score what has no score, propagate, judge.

Reading takes moments and needs no run folder. Reading conversations again with a model, or embedding them, takes
minutes: that is written to a run folder trajectory by trajectory, and taken up where it stopped. Either may be done by
workers elsewhere. What is held here are figures; what was said lies on a shelf (`shelf.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from howsure.errors import InputError
from howsure.models.contract import ConversationCost, Failure, Model, Rolling
from howsure.models.embedding import SentenceEmbedder
from howsure.runs import Engine, Identity, LocalEngine, NoProgress, Progress, Run, RunWriter, Sample, work_through
from howsure.runs.files import write_atomic
from howsure.studies.pairs import check_seed, open_models
from howsure.studies.trajectories import proxy
from howsure.studies.trajectories.document import Rows, as_json, metadata
from howsure.studies.trajectories.judge import USUAL, Judging
from howsure.studies.trajectories.reading import Reading, read_sources
from howsure.studies.trajectories.scores import FinalScores
from howsure.studies.trajectories.scoring import Batch, Scorer, sample_id, trajectory_of
from howsure.studies.trajectories.shelf import Shelf
from howsure.studies.trajectories.sources import PathLike, find_sources
from howsure.studies.trajectories.summary import summarise
from howsure.studies.trajectories.table import write_tables
from howsure.studies.trajectories.turns import Problem, Trajectory
from howsure.types import Shown

RESULTS = "results.json"
TOKENS_AT_ONCE = 8192
"""What is read between two samples on the disk, roughly: the most that a crash can cost."""

RUNS_AT_ONCE = 64
"""The same for work that is not counted in tokens, and how many conversations are looked at together to be counted."""


WORDS_AT_ONCE_BYTES = 4_000_000
"""And for words, which are held while their batch is worked on."""


class Prepared(NamedTuple):
    """Everything that is known before a model is loaded."""

    readings: list[Reading]
    """Without their words."""
    trajectories: list[Trajectory]
    shelf: Shelf
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
        self.shelf.close()

    def whole(self, indices: Sequence[int]) -> tuple[Trajectory, ...]:
        """Some trajectories with all that was said in them."""
        return tuple(self.shelf.whole(i, self.trajectories[i]) for i in indices)

    def to_read(self) -> list[int]:
        """The conversations that the model reads."""
        if self.model is None:
            return []
        return [i for i, one in enumerate(self.trajectories) if proxy.needs_proxy(one)]

    def reading_costs(self, chosen: Sequence[int]) -> Iterator[ConversationCost | Failure]:
        """What the model takes for each of some conversations; a few of them are held at a time."""
        assert self.model is not None
        for begin in range(0, len(chosen), RUNS_AT_ONCE):
            yield from proxy.costs(self.whole(chosen[begin : begin + RUNS_AT_ONCE]), self.model, self.rolling)

    def cost(self) -> dict[str, int]:
        """What the study will take; with a model this tokenises every conversation that it reads."""
        total = {"trajectories": len(self.trajectories), "turns": sum(len(one.turns) for one in self.trajectories)}
        if self.model is None:
            return total
        found = [one for one in self.reading_costs(self.to_read()) if not isinstance(one, Failure)]
        return total | {
            "conversations_to_read": len(self.to_read()),
            "tokens": sum(one.tokens for one in found),
            "tokens_run": sum(one.tokens_run for one in found),
        }


class Result(NamedTuple):
    """A finished study: the summary, the runs with their figures, and the run folder where there is one.

    Of what was said, `trajectories` have the beginning of each message; all of it is in the run folder.
    """

    summary: dict[str, Any]
    trajectories: list[Trajectory]
    metadata: dict[str, Any]
    rows: Rows
    """A row for each run, made when it is asked for."""
    scores: FinalScores
    run: Run | None

    @property
    def document(self) -> dict[str, Any]:
        """Step 2 and 3 as one piece of JSON-safe data, made anew at each call; `write` needs less memory."""
        return {"metadata": self.metadata, "results": list(self.rows)}

    def write(self, path: Path) -> None:
        """The document as a file."""
        write_atomic(path, as_json(self.metadata, self.rows))

    @property
    def failed(self) -> bool:
        return bool(self.summary["problems"])

    _repr_html_ = Shown._repr_html_


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
    engine: Engine | None = None,
    device: str | None = None,
    elsewhere: bool = False,
    announce: Callable[[str], None] | None = None,
    **model_options: Any,
) -> Prepared:
    """Read the logs, and open the model without its weights; `for_a_run` if they are to go into a run folder.

    Files are read by the workers of `engine`, or by `jobs` processes of this machine.
    """
    sources, problems = find_sources(paths)
    lasting = for_a_run or score_with is not None or distances
    readings: list[Reading] = []
    shelf = Shelf()
    for reading in read_sources(
        sources, with_tokens=tokens, with_digests=lasting, with_words=lasting, jobs=jobs, engine=engine
    ):
        shelf.put(reading.words)
        readings.append(reading._replace(words=()))
    problems = problems + [problem for reading in readings for problem in reading.loaded.problems]
    trajectories = [one for reading in readings for one in reading.loaded.trajectories]
    if not trajectories:
        raise _nothing(problems, paths)
    options: dict[str, Any] = {"tokens": tokens, "distances": distances}
    model, rolling, owned = None, Rolling(), False
    if score_with is not None:
        asked = {"device": device, "elsewhere": elsewhere, "announce": announce, **model_options}
        chosen = asked if isinstance(score_with, str) else {}
        ((model, owned),) = open_models([score_with], chosen)
        proxy.require_conversations(model)
        rolling = model.rolling(Rolling(window, stride))
        options |= {"window": rolling.window, "stride": rolling.stride}
    return Prepared(
        readings,
        trajectories,
        shelf,
        problems,
        _about(readings) + ([] if model is None else proxy.left_alone(trajectories, model.name)),
        model,
        rolling,
        SentenceEmbedder(device=device, elsewhere=elsewhere, announce=announce) if distances else None,
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
    engine: Engine | None = None,
) -> Result:
    """Score what has no score, propagate, judge; into a run folder where `out` names one.

    Without `judging` the study ends with the scores of the runs. Models work on `engine`.
    """
    check_seed(seed)
    if judging is not None:
        judging.check()
    doer = engine if engine is not None and prepared.takes_long else LocalEngine()
    if out is not None:
        return _into_run(prepared, out, judging, verbose, seed, retry_failed, progress or NoProgress(), doer)
    trajectories = prepared.trajectories
    if prepared.takes_long:
        pieces = (Batch(batch, prepared.whole(batch)) for batch in _batches(prepared))
        found = doer.run(_scorer(prepared, evidence=False), pieces)
        trajectories = [trajectory_of(sample) for samples in found for sample in samples]
    return _finished(prepared, trajectories, judging, verbose, seed)


def _into_run(
    prepared: Prepared,
    out: PathLike,
    judging: Judging | None,
    verbose: bool,
    seed: int,
    retry_failed: bool,
    progress: Progress,
    engine: Engine,
) -> Result:
    """The same, each trajectory written as soon as it is worked out, and judged by what was written."""
    identity, ids = _identity(prepared, seed), [sample_id(i) for i in range(len(prepared.trajectories))]
    with RunWriter(out, identity, len(ids), source=_named(prepared), retry_failed=retry_failed) as writer:
        work_through(
            writer,
            ids,
            _batches(prepared),
            _scorer(prepared, evidence=True),
            progress,
            "trajectories",
            piece=lambda batch: Batch(batch, prepared.whole(batch)),
            engine=engine,
        )
        result = _finished(prepared, _taken(writer.samples), judging, verbose, seed)
        result.write(writer.path / RESULTS)
        write_tables(writer.path, result.trajectories, result.scores)
        writer.finish(result.summary)
    return result._replace(run=Run(out))


def _taken(samples: list[Sample]) -> list[Trajectory]:
    """The trajectories of samples, which are given up for them one by one: dictionaries take three times the room."""
    samples.sort(key=lambda sample: sample.index, reverse=True)
    return [trajectory_of(samples.pop()) for _ in range(len(samples))]


def _scorer(prepared: Prepared, *, evidence: bool) -> Scorer:
    """The model takes part only where there is something for it to read, and its weights are not loaded for nothing."""
    model = prepared.model if prepared.to_read() else None
    tokens = prepared.options["tokens"]
    return Scorer(model, prepared.rolling, prepared.embedder, with_tokens=tokens, evidence=evidence)


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
    count = len(prepared.trajectories)
    sizes = [max(1.0 / RUNS_AT_ONCE, prepared.shelf.byte_count(i) / WORDS_AT_ONCE_BYTES) for i in range(count)]
    if prepared.model is not None and (chosen := prepared.to_read()):
        for i, cost in zip(chosen, prepared.reading_costs(chosen), strict=True):
            tokens = 0 if isinstance(cost, Failure) else cost.tokens_run
            sizes[i] = max(tokens / TOKENS_AT_ONCE, prepared.shelf.byte_count(i) / WORDS_AT_ONCE_BYTES)
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


def _finished(
    prepared: Prepared, trajectories: list[Trajectory], judging: Judging | None, verbose: bool, seed: int
) -> Result:
    loaded = [reading.loaded for reading in prepared.readings]
    unread = [problem for one in trajectories for problem in proxy.problems_of(one)]
    scores = FinalScores(trajectories)
    summary = summarise(trajectories, [*prepared.problems, *unread], prepared.notes, judging, scores, seed=seed)
    rows = Rows(trajectories, scores, verbose=verbose)
    return Result(summary, trajectories, metadata(loaded, trajectories), rows, scores, None)
