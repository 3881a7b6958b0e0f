"""Trajectories: turn by turn, how sure were agent and user, and should they have been?

Reading takes moments and needs no run folder. Reading conversations again with a model, or embedding them, takes
minutes: that goes into a run folder, trajectory by trajectory. What is held here are figures; what was said lies in a
spool (`text_spool.py`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from howsure.errors import InputError, WorkersLost
from howsure.models.contract import ConversationCost, Failure, Model, ModelOptions, Rolling
from howsure.models.embedding import SentenceEmbedder
from howsure.options import Opt
from howsure.runs import Engine, Run, Sample
from howsure.runs.files import write_atomic
from howsure.runs.run import Batch, Items, Opened, PathLike, Plan, Ready, RetryOptions
from howsure.studies.study import Session, Study
from howsure.studies.texts import as_paths
from howsure.studies.trajectories import proxy
from howsure.studies.trajectories.comparison import TrajectoriesComparison, compare
from howsure.studies.trajectories.distances import measure_distances
from howsure.studies.trajectories.document import Rows, as_json, metadata, write_tables
from howsure.studies.trajectories.judge import Judging
from howsure.studies.trajectories.reading import read_sources
from howsure.studies.trajectories.sources import Source, find_sources
from howsure.studies.trajectories.summary import TrajectoriesSummary, summarise
from howsure.studies.trajectories.text_spool import TextSpool, shorten
from howsure.studies.trajectories.turns import Evidence, Loaded, Problem, Said, Trajectory
from howsure.types import html_of

RESULTS = "results.json"
TOKENS_AT_ONCE = 8192
"""What is read between two samples on the disk, roughly: the most that a crash can cost."""

RUNS_AT_ONCE = 64
"""The same for work that is not counted in tokens, and how many conversations are looked at together to be counted."""

WORDS_AT_ONCE_BYTES = 4_000_000
"""And for words, which are held while their batch is worked on."""

SAID_CHARACTERS = 50_000
"""Of one message in a run folder: a tool may answer with a whole file, which nobody reads there."""


@dataclass(frozen=True)
class TrajectoriesOptions(Judging, RetryOptions, ModelOptions):
    """Which logs are read, what is added to them, and what is asked of them."""

    results: Annotated[
        PathLike | Sequence[PathLike],
        Opt(
            "τ²-bench results (a file, a folder, a pattern in quotes), chats as JSON lines, Inspect .eval logs.",
            argument=True,
            identity="no",
        ),
    ]
    _: KW_ONLY
    output: Annotated[
        PathLike | None,
        Opt(
            "Write every turn and run with its scores to this JSON file.",
            flags=("--output", "-o"),
            path="local",
            identity="no",
        ),
    ] = None
    verbose: Annotated[
        bool,
        Opt("Statistics of each turn, and running values of each score.", flags=("--verbose", "-v"), identity="no"),
    ] = False
    tokens: Annotated[bool, Opt("Every turn token by token; makes --output large.", identity="always")] = False
    score_with: Annotated[
        str | Model | None,
        Opt(
            "A local chat model, such as smollm2, that reads the conversations which hold no log-probabilities.",
            identity="no",
        ),
    ] = None
    distances: Annotated[
        bool,
        Opt(
            "Embed every message (MiniLM): weights by inquiry drift and inference gap, and learned weights, both "
            "adapted from SAUP.",
            identity="always",
        ),
    ] = False
    window: Annotated[int | None, Opt("Tokens that the model of --score-with sees at once. Default: its context.")] = (
        None
    )
    stride: Annotated[int | None, Opt("New tokens in each window after the first. Default: half the window.")] = None
    jobs: Annotated[
        int | None,
        Opt(
            "Files read at the same time. Default: one per core, if large.",
            flags=("--jobs", "-j"),
            least=1,
            identity="no",
        ),
    ] = None
    out: Annotated[
        PathLike | None,
        Opt(
            "Run folder; an unfinished run there is resumed. Default: none, and with --score-with or --distances "
            "runs/trajectories-<time>.",
            path="any",
            identity="no",
        ),
    ] = None
    base_url: str | None = None  # no server reads conversations


@dataclass(frozen=True, kw_only=True)
class Logs(Items[Trajectory]):
    """What was read: the figures of every trajectory, and what was said in a spool."""

    loaded: list[Loaded]
    problems: list[Problem]
    spool: TextSpool
    sets: list[str]
    embedder: SentenceEmbedder | None

    def identity(self) -> dict[str, Any]:
        counts = {"trajectories": len(self.items), "problems": len(self.problems)}
        return {"fingerprint": self.fingerprint, **counts}

    def whole(self, indices: Sequence[int]) -> tuple[Trajectory, ...]:
        """Some trajectories with all that was said in them, of which nobody else holds a copy."""
        return tuple(self.spool.whole(i, self.items[i]) for i in indices)

    def to_read(self) -> list[int]:
        """The conversations that hold no scores."""
        return [i for i, one in enumerate(self.items) if proxy.needs_proxy(one)]

    def costs(self, chosen: Sequence[int], model: Model, rolling: Rolling) -> Iterator[ConversationCost | Failure]:
        """What the model takes for each of some conversations; a few of them are held at a time."""
        for begin in range(0, len(chosen), RUNS_AT_ONCE):
            some = self.whole(chosen[begin : begin + RUNS_AT_ONCE])
            yield from (cost for _, cost in proxy.conversations(some, model, rolling))


class Asking(NamedTuple):
    """What is done with each trajectory. The model takes part only where there is something for it to read, and its
    weights are not loaded for nothing."""

    reads: bool
    rolling: Rolling
    embedder: SentenceEmbedder | None
    with_tokens: bool


class Result(NamedTuple):
    """A finished study: the summary, the runs with their figures, and the run folder where there is one.

    Of what was said, `trajectories` have the beginning of each message; all of it is in the run folder.
    """

    summary: TrajectoriesSummary
    trajectories: list[Trajectory]
    metadata: dict[str, Any]
    rows: Rows
    """A row for each run, made when it is asked for."""
    run: Run | None

    @property
    def samples(self) -> list[Sample[Trajectory]]:
        """A sample for each run, as in a run folder."""
        return [sample_of(index, one) for index, one in enumerate(self.trajectories)]

    @property
    def source(self) -> str:
        """The logs by their time stamp or their names."""
        return str(self.metadata["source_file"])

    @property
    def document(self) -> dict[str, Any]:
        """Step 2 and 3 as one piece of JSON-safe data, made anew at each call; `write` needs less memory."""
        return {"metadata": self.metadata, "results": list(self.rows)}

    def write(self, path: PathLike) -> None:
        """The document as a file."""
        write_atomic(Path(path), as_json(self.metadata, self.rows))

    @property
    def failed(self) -> bool:
        return bool(self.summary.problems)

    def _repr_html_(self) -> str:
        return html_of(self)


class TrajectoriesStudy(Study[TrajectoriesOptions, Trajectory, Trajectory]):
    """How sure agent and user were, turn by turn, and whether they should have been.

    Uncertainty of a turn is the mean of −ln p over its tokens, in nats. It is
    propagated over the run, compared with the rewards in the logs, turned
    into alarms (fitted on other tasks), and, with --policy, into interventions
    that are replayed. A turn without log-probabilities has no
    score, and is counted.

    Question   where in a conversation did agent or user become unsure, did that foretell failure, and what would acting
               on it have saved?
    Data       τ²-bench results (files, folders, lists), chats as JSON lines, Inspect logs; with log-probabilities, or
               without them and a model that reads the conversations again
    Units      tasks: runs of one task hang together
    Asks       nothing of a log with log-probabilities; --score-with has a model read whole conversations once
    Measure    U_i = mean of −ln p over the tokens of turn i, in nats; propagated over the run into one score
    Comes out  every turn and run with its scores, coverage of each; scores against failure; alarms on tasks that they
               were not fitted on; interventions replayed

    Example: howsure trajectories results.json --output uncertainty.json
    """

    returns = Result
    name, options, record, summary = "trajectories", TrajectoriesOptions, Trajectory, TrajectoriesSummary
    evidence, comparison = Evidence, TrajectoriesComparison
    model_fields = ("score_with",)

    # -- before the work -------------------------------------------------------------------------------------------

    def needs_folder(self, options: TrajectoriesOptions) -> bool:
        return options.score_with is not None or options.distances

    def read(self, options: TrajectoriesOptions, engine: Engine) -> Logs:
        """Files are read by the workers of the engine, or by `jobs` processes of this machine."""
        paths = as_paths(options.results)
        sources, problems = find_sources(paths)
        if options.output is not None:
            _check_output(Path(options.output), sources)
        lasting = options.out is not None or self.needs_folder(options)
        spool, loaded, digests = TextSpool(), [], hashlib.sha256()
        for reading in read_sources(
            sources,
            with_tokens=options.tokens,
            with_digests=lasting,
            with_words=lasting,
            jobs=options.jobs,
            engine=engine,
        ):
            spool.put(reading.words)
            digests.update(reading.digest)
            loaded.append(reading.loaded)
        problems = problems + [problem for one in loaded for problem in one.problems]
        trajectories = [one for each in loaded for one in each.trajectories]
        if not trajectories:
            raise _nothing(problems, paths)
        device = options.worker_device(options.device)
        return Logs(
            trajectories,
            f"sha256:{digests.hexdigest()}",
            loaded=loaded,
            problems=problems,
            spool=spool,
            sets=list(dict.fromkeys(source.set_name for source in sources)),
            embedder=SentenceEmbedder(announce=options.announce, **device) if options.distances else None,
        )

    def open_models(self, options: TrajectoriesOptions) -> list[Opened | None]:
        """Beside a model that is open already, the device is that of the embedder."""
        is_open = isinstance(options.score_with, Model) and options.distances
        return super().open_models(options.with_(device=None) if is_open else options)

    def plan(self, items: Logs, model: Model | None, options: TrajectoriesOptions) -> Plan[TrajectoriesOptions]:
        rolling = Rolling()
        if model is not None:
            proxy.require_conversations(model)
            rolling = model.rolling(Rolling(options.window, options.stride))
        to_read = [] if model is None else items.to_read()

        def cost() -> dict[str, int]:
            """With a model this tokenises every conversation that it reads."""
            total = {"trajectories": len(items.items), "turns": sum(len(one.turns) for one in items.items)}
            if model is None:
                return total
            costs = [one for one in items.costs(to_read, model, rolling) if not isinstance(one, Failure)]
            tokens = {"tokens": sum(one.tokens for one in costs), "tokens_run": sum(one.tokens_run for one in costs)}
            return total | {"conversations_to_read": len(to_read), **tokens}

        return Plan(
            _batches(items, to_read, model, rolling),
            options.with_(
                score_with=None if model is None else model.name, window=rolling.window, stride=rolling.stride
            ),
            len(items.items),
            how=Asking(bool(to_read), rolling, items.embedder, options.tokens),
            cost=cost,
            local=not to_read and items.embedder is None,
        )

    def identity(self, items: Logs, plan: Plan, model: Model | None) -> Any:
        identity = super().identity(items, plan, model)
        if items.embedder is not None:
            identity.options["embedder"] = items.embedder.fingerprint()
        return identity

    def source(self, items: Logs, options: TrajectoriesOptions) -> str:
        return ", ".join(items.sets[:3]) + (", …" if len(items.sets) > 3 else "")

    # -- the work --------------------------------------------------------------------------------------------------

    def load(self, model: Model | None, how: Asking) -> None:
        if model is not None and how.reads:
            model.load()
        if how.embedder is not None:
            how.embedder.load()

    def threads(self, model: Model | None, how: Asking) -> int | None:
        both = (model if how.reads else None, how.embedder)
        return next((one.threads for one in both if one is not None and one.threads), None)

    def worker_fingerprint(self, model: Model | None, how: Asking) -> dict[str, Any]:
        return {
            "model": model.fingerprint() if model is not None and how.reads else None,
            "embedder": None if how.embedder is None else how.embedder.fingerprint(),
        }

    def ask(self, model: Model | None, batch: Batch, how: Asking) -> list[Sample[Trajectory]]:
        """Read again what has no score, and measure distances, where either is wanted."""
        if model is not None and how.reads:
            unscored = [one for one in batch.items if proxy.needs_proxy(one)]
            proxy.score_with(unscored, model, how.rolling, with_tokens=how.with_tokens)
        if how.embedder is not None:
            measure_distances(batch.items, how.embedder)
        return _samples(batch)

    def failed_batch(self, batch: Batch, failure: Failure, how: Asking) -> list[Sample[Trajectory]]:
        """Conversations that were to be read again count as such that no model could read.

        For distances there is no such word: a run that lacks some for no reason of its own does not go on.
        """
        if how.embedder is not None:
            raise WorkersLost(failure.detail)
        for one in batch.items:
            if proxy.needs_proxy(one):
                proxy.leave_unread(one, failure)
        return _samples(batch)

    def session(self, items: Logs, plan: Plan, model: Model | None, writer: Any) -> LogSession:
        return LogSession(items, plan, writer)

    def judge(
        self, samples: Sequence[Sample[Trajectory]], options: TrajectoriesOptions, items: Logs
    ) -> TrajectoriesSummary:
        ordered = sorted(samples, key=lambda sample: sample.index)
        return judged([sample.result for sample in ordered], options, items)

    def run_in_memory(self, ready: Ready) -> Result:
        items, options = ready.items, ready.plans[0].options
        return result_of(judged(items.items, options, items), items.items, options, items)

    def deliver(self, result: Result, options: TrajectoriesOptions) -> None:
        if options.output is not None:
            result.write(options.output)

    def demo(self, model: Model, data: Path) -> TrajectoriesOptions:
        """Conversations without log-probabilities, read by the model if it can read conversations."""
        reader = model if model.takes_conversations else None
        return TrajectoriesOptions(data / "demo_trajectories.json", score_with=reader)

    def compare(self, a: Run, b: Run) -> TrajectoriesComparison:
        return compare(a, b)

    def release(self, items: Logs) -> None:
        if items.embedder is not None:
            items.embedder.close()
        items.spool.close()


class LogSession(Session):
    """The spool is asked for the words of a batch when it is sent; tables and document are written at the end."""

    def sent(self, batch: Batch) -> Batch:
        return batch._replace(items=self.items.whole(batch.indices))

    def finish(self, summary: TrajectoriesSummary, samples: Sequence[Sample[Trajectory]]) -> None:
        trajectories = [sample.result for sample in samples]
        self.made = result_of(summary, trajectories, self.plan.options, self.items)
        self.made.write(self.folder / RESULTS)
        write_tables(self.folder, trajectories)

    def result(self, study: Any, summary: Any, samples: list[Sample], run: Run) -> Result:
        return self.made._replace(run=run)


TRAJECTORIES = TrajectoriesStudy()


# -- before the work ------------------------------------------------------------------------------------------------


def _check_output(output: Path, sources: Sequence[Source]) -> None:
    """Whether a file can be written there, and is none of the logs."""
    if not output.parent.is_dir():
        raise InputError(f"--output {output}: there is no folder {output.parent}; make it first")
    if output.is_dir():
        raise InputError(f"--output {output} is a folder: name a file in it, such as {output / 'uncertainty.json'}")
    logs = {os.path.realpath(path) for source in sources for path in (source.path, source.about) if path}
    if os.path.realpath(output) in logs:
        raise InputError(f"--output {output} is one of the logs, which it would overwrite: choose another name")


def _nothing(problems: Sequence[Problem], paths: Sequence[PathLike]) -> InputError:
    if problems:
        others = len(problems) - 1
        more = f" ({others:,} more problem{'' if others == 1 else 's'})" if others else ""
        return InputError(f"there is no trajectory to analyse: {problems[0].sentence}{more}")
    named = ", ".join(str(path) for path in paths) or "nothing"
    return InputError(f"there is no trajectory to analyse in {named}")


def _batches(items: Logs, to_read: Sequence[int], model: Model | None, rolling: Rolling) -> Iterator[Batch]:
    """Neighbours that are worked on together: a pure function of the logs and the options."""
    chosen = set(to_read)
    costs = iter(()) if model is None else items.costs(to_read, model, rolling)
    some: list[int] = []
    full = 0.0
    for i in range(len(items.items)):
        size = 1.0 / RUNS_AT_ONCE
        if i in chosen:
            cost = next(costs)
            size = 0.0 if isinstance(cost, Failure) else cost.tokens_run / TOKENS_AT_ONCE
        some.append(i)
        full += max(size, items.spool.byte_count(i) / WORDS_AT_ONCE_BYTES)
        if full >= 1.0:
            yield _batch(items, some)
            some, full = [], 0.0
    if some:
        yield _batch(items, some)


def _batch(items: Logs, indices: Sequence[int]) -> Batch:
    return Batch(tuple(map(_id, indices)), tuple(items.items[i] for i in indices), tuple(indices))


def _id(index: int) -> str:
    return f"trajectory-{index}"


# -- samples and what comes of them ---------------------------------------------------------------------------------


def _samples(batch: Batch) -> list[Sample[Trajectory]]:
    samples = []
    for index, trajectory in zip(batch.indices, batch.items, strict=True):
        said = [_cut(one) for one in trajectory.said]
        shorten(trajectory)
        samples.append(sample_of(index, trajectory, Evidence(said) if said else None))
    return samples


def sample_of(index: int, trajectory: Trajectory, evidence: Evidence | None = None) -> Sample[Trajectory]:
    """A trajectory with all that is needed to judge it; what was said in it is evidence, and stays on the disk."""
    unread = next((turn for turn in trajectory.turns if turn.reason == proxy.UNREAD), None)
    return Sample(
        _id(index),
        index,
        trajectory,
        evidence or {},
        reason="unsupported" if trajectory.unsupported else proxy.UNREAD if unread else None,
        detail=trajectory.unsupported or (unread.detail if unread else None),
    )


def _cut(said: Said) -> Said:
    length = len(said.text)
    return said if length <= SAID_CHARACTERS else Said(said.role, said.text[:SAID_CHARACTERS], said.turn, length)


def judged(trajectories: Sequence[Trajectory], options: TrajectoriesOptions, items: Logs) -> TrajectoriesSummary:
    unread = [problem for one in trajectories for problem in proxy.problems_of(one)]
    notes = _about_files(items.loaded)
    if options.score_with is not None:
        notes += proxy.left_alone(trajectories, str(options.score_with))
    return summarise(trajectories, [*items.problems, *unread], notes, options, seed=options.seed)


def _about_files(loaded: Sequence[Loaded]) -> list[str]:
    """What readers of the figures should know about the files, though nothing is wrong with them."""
    notes = [note for one in loaded for note in one.notes]
    others = sum(one.passed_over is not None for one in loaded)
    what = "1 file in the folders holds" if others == 1 else f"{others:,} files in the folders hold"
    return notes + ([f"{what} something else than trajectories, and nothing was read from there"] if others else [])


def result_of(
    summary: TrajectoriesSummary,
    trajectories: list[Trajectory],
    options: TrajectoriesOptions,
    items: Logs,
) -> Result:
    rows = Rows(trajectories, verbose=options.verbose)
    return Result(summary, trajectories, metadata(items.loaded, trajectories), rows, None)
