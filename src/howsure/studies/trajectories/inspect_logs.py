"""Logs of Inspect AI: `.eval`, and its older `.json`.

They are read by inspect_ai itself, a large log sample by sample. Its messages hold no log-probabilities; these are kept
with the calls of models, and are brought together here by the ids that Inspect gives to messages.
"""

from __future__ import annotations

import contextlib
import math
import os
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from howsure.errors import InputError, MissingExtra
from howsure.studies.trajectories.messages import (
    FORMAT_ERROR,
    TOOL_ERROR,
    Spoken,
    about_file,
    about_losses,
    call_text,
    fill,
    opening_of,
    values_of,
)
from howsure.studies.trajectories.partial_json import Loss
from howsure.studies.trajectories.turns import ACTORS, GIVEN, UNREADABLE, Draft, Loaded, Problem, Trajectory, settle

WRITTEN_BY_NO_MODEL = frozenset({"input", "operator"})
"""Sources of messages: the dataset, and a person at the keyboard."""

GRADES = frozenset({"C", "I", "P", "N"})
"""Inspect's words for correct, incorrect, partly correct and no answer."""

TRUTHS = frozenset({"yes", "no", "true", "false"})

WHOLE_BYTES = 200_000_000
"""A log that unpacks to no more is read at once, in a quarter of the time: Inspect opens it anew for each sample."""

SHOWN_CHARACTERS = 200
"""Of what Inspect says about a file that it cannot read."""


class _Written(NamedTuple):
    """What a model wrote, and its tokens."""

    id: str | None
    text: str
    tokens: list[Any] | None


def read_inspect(path: str | os.PathLike[str], source: str, *, with_tokens: bool = False) -> Loaded:
    """All samples of one log, each a trajectory; whatever is damaged is left out with a sentence."""
    path = Path(path)
    size = path.stat().st_size
    _inspect_log()  # before anything is said about the file
    try:
        log, names = _log(path)
    except InputError as error:
        return Loaded(source, size, None, [], [about_file(source, "malformed", str(error))])
    trajectories: list[Trajectory] = []
    drafts: list[Draft] = []
    losses: list[Loss] = []
    scorers: tuple[str, ...] = ()
    there = 0
    for sample in _samples(path, log, names):
        there += 1
        if isinstance(sample, Loss):
            losses.append(sample)
            continue
        trajectory = _trajectory(sample, log, len(trajectories), source)
        losses += _judge(trajectory, sample)
        drafts += fill(trajectory, _spoken(sample, with_tokens))
        trajectory.opening = opening_of(trajectory)
        trajectories.append(trajectory)
        scorers = max(scorers, tuple(sample.scores or ()), key=len)
    problems = [*about_losses(losses, source), *_missing(log, there, source), *settle(drafts, source)]
    return Loaded(source, size, log.eval.created, trajectories, problems, _notes(log, there, scorers, source))


# -- what Inspect reads --------------------------------------------------------------------------------------------


def _inspect_log() -> Any:
    try:
        import inspect_ai.log
    except ImportError as error:
        raise MissingExtra("reading Inspect logs", "inspect", "inspect-ai") from error
    return inspect_ai.log


def _log(path: Path) -> tuple[Any, Iterable[tuple[str | int, int]]]:
    """A log with its samples; without them and with their names, where they are to be read one by one."""
    if path.suffix.lower() != ".eval":
        return _read(path), ()
    if not zipfile.is_zipfile(path):
        raise InputError("is no Inspect log: an .eval file is a zip file, and this is none, or half of one; restore it")
    try:
        with zipfile.ZipFile(path) as file:
            unpacked_bytes = sum(entry.file_size for entry in file.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise InputError(f"is a damaged zip file: {_briefly(error)}; restore it") from error
    if unpacked_bytes <= WHOLE_BYTES:
        with contextlib.suppress(InputError):  # one damaged sample spoils all; one by one the others are still good
            return _read(path), ()
    return _read(path, header_only=True), _names(path)


def _read(path: Path, *, header_only: bool = False) -> Any:
    inspect_log = _inspect_log()
    try:
        return inspect_log.read_eval_log(str(path), header_only=header_only, resolve_attachments=True)
    except (MemoryError, OSError):
        raise
    except Exception as error:  # a damaged file may fail in any part of Inspect's reader, in any way
        remedy = "restore the file, or update inspect-ai if a newer one wrote it"
        raise InputError(f"is no Inspect log, or a damaged one: {_briefly(error)}; {remedy}") from error


def _samples(path: Path, log: Any, names: Iterable[tuple[str | int, int]]) -> Iterator[Any]:
    """The samples, one by one where they have names; a `Loss` stands for one that cannot be read."""
    yield from log.samples or ()
    for name, epoch in names:
        try:
            yield _inspect_log().read_eval_log_sample(str(path), name, epoch, resolve_attachments=True)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - as above, and the other samples are still good
            yield Loss((str(name), epoch), f"sample {name}, epoch {epoch}: {_briefly(error)}")


def _names(path: Path) -> Iterable[tuple[str | int, int]]:
    try:
        summaries = _inspect_log().read_eval_log_sample_summaries(str(path))
    except (MemoryError, OSError):
        raise
    except Exception as error:  # as above
        raise InputError(f"has no list of its samples that can be read: {_briefly(error)}") from error
    return dict.fromkeys((summary.id, summary.epoch) for summary in summaries)


def _briefly(error: Exception) -> str:
    """Some of Inspect's errors fill a page, and some are but the name of what is missing."""
    text = f"it has no {error.args[0]}" if isinstance(error, KeyError) and error.args else str(error)
    return _shortened(text.partition("For further information")[0] or type(error).__name__)


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def _notes(log: Any, there: int, scorers: tuple[str, ...], source: str) -> list[str]:
    """What whoever reads the figures should know about all of the log."""
    notes = []
    if there and log.status != "success":
        what = f"is of a run that did not finish (status {log.status}); the {there:,} samples that it holds are read"
        notes.append(f"{source} {what}")
    if len(scorers) > 1:
        what = f"has several scores a sample ({', '.join(scorers)}); the reward is the first, {scorers[0]}"
        notes.append(f"{source} {what}")
    return notes


def _missing(log: Any, there: int, source: str) -> list[Problem]:
    """Samples that should be in the log: some at least, and of a finished run all."""
    if not there:
        remedy = "let the run finish, without --no-log-samples; if it has, the file is damaged"
        return [about_file(source, "no_samples", f"holds no samples (status {log.status}); {remedy}")]
    expected = log.results.total_samples if log.results is not None else 0
    if log.status != "success" or there >= expected:
        return []
    what = f"is of a run with {expected:,} samples, but holds only {there:,}; the others are missing"
    return [about_file(source, "missing_samples", what)]


# -- samples -------------------------------------------------------------------------------------------------------


def _trajectory(sample: Any, log: Any, index: int, source: str) -> Trajectory:
    return Trajectory(
        source=source,
        index=index,
        id=f"{sample.id}/{sample.epoch}",
        task_id=str(sample.id),
        trial=sample.epoch,
        domain=log.eval.task,
        agent=log.eval.model,
        termination="error" if sample.error is not None else getattr(sample.limit, "type", None),
    )


def _judge(trajectory: Trajectory, sample: Any) -> list[Loss]:
    """The reward of a sample, or why it has none; a score that is no number is lost."""
    if sample.error is not None:
        trajectory.reward_missing = "not_evaluable"
        return []
    name, score = next(iter((sample.scores or {}).items()), (None, None))
    if score is None or score.value != score.value:  # NaN is how Inspect writes that a scorer could not tell
        trajectory.reward_missing = "no_reward"
        return []
    if not _is_number(score.value):
        trajectory.reward_missing = UNREADABLE
        shown = _shortened(repr(score.value))
        why = f"sample {sample.id}, epoch {sample.epoch}: its score {name} is {shown}, which is no number"
        return [Loss((str(sample.id), sample.epoch), why)]
    from inspect_ai.scorer import value_to_float

    trajectory.reward = float(value_to_float()(score.value))
    return []


def _is_number(value: Any) -> bool:
    """Whether Inspect can tell its number; of anything else it would make 0."""
    if isinstance(value, str) and (value in GRADES or value.lower() in TRUTHS):
        return True
    try:
        return isinstance(value, str | int | float) and math.isfinite(float(value))
    except (ValueError, OverflowError):
        return False


# -- messages ------------------------------------------------------------------------------------------------------


def _spoken(sample: Any, with_tokens: bool) -> Iterator[Spoken]:
    for i, (message, tokens) in enumerate(zip(sample.messages, _tokens(sample), strict=True)):
        error = getattr(message, "error", None)  # what a tool said that failed, as the model is told
        ill_formed = any(call.parse_error for call in getattr(message, "tool_calls", None) or ())
        yield Spoken(
            role=message.role,
            content=message.text or ("" if error is None else error.message),
            calls=_calls(message),
            logprobs=values_of(tokens),
            tokens=[token.token for token in tokens] if tokens and with_tokens else None,
            place=f"sample {sample.id}, epoch {sample.epoch}: log-probabilities of messages[{i}]",
            missing=GIVEN if message.source in WRITTEN_BY_NO_MODEL else None,
            faults=(FORMAT_ERROR,) * ill_formed + (TOOL_ERROR,) * (error is not None),
        )


def _calls(message: Any) -> tuple[str, ...]:
    return tuple(call_text(call.function, call.arguments) for call in getattr(message, "tool_calls", None) or ())


def _tokens(sample: Any) -> list[list[Any] | None]:
    """The tokens of each message: by its id; where no model's answer has that id, by its words, in their order."""
    written = list(_written(sample))
    by_id = {one.id: one.tokens for one in written if one.id is not None}
    ids = {message.id for message in sample.messages if message.id is not None}
    left = [one for one in written if one.id not in ids and one.tokens and one.text]
    tokens: list[list[Any] | None] = []
    for message in sample.messages:
        if message.id is not None and message.id in by_id:
            tokens.append(by_id[message.id])
            continue
        by_model = message.role in ACTORS and message.source not in WRITTEN_BY_NO_MODEL
        same = next((one for one in left if by_model and one.text == _words(message)), None)
        if same is not None:
            left.remove(same)
        tokens.append(same.tokens if same is not None else None)
    return tokens


def _words(message: Any) -> str:
    return "\n".join((message.text.strip(), *_calls(message))).strip()


def _written(sample: Any) -> Iterator[_Written]:
    """All answers of models, in their order; and what the sample ended with, where that is none of them."""
    answers = [choice for event in sample.events if event.event == "model" for choice in event.output.choices]
    known = {choice.message.id for choice in answers}
    if None not in known:  # without ids nobody could tell whether it is one of them
        answers += [choice for choice in sample.output.choices if choice.message.id not in known]
    for choice in answers:
        tokens = choice.logprobs.content if choice.logprobs is not None else None
        yield _Written(choice.message.id, _words(choice.message), tokens or None)
