"""From a file of screens to a finished run: prepare without weights, then carry out."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from howsure.errors import InputError, MissingCapability
from howsure.models.contract import Capability, Failure, Model, ScoreItem
from howsure.runs import Engine, Identity, NoProgress, Progress, Run, RunWriter, Sample, work_through
from howsure.studies.grounding.ask import PARSERS, Asking, ask, to_sample
from howsure.studies.grounding.frames import FRAMES, QWEN25_TOKEN_SIDE, Frame, frame_for
from howsure.studies.grounding.items import Item, Items
from howsure.studies.grounding.judging.judge import judge, judge_group
from howsure.studies.grounding.output.exports import UserFiles
from howsure.studies.grounding.prompts import asks_for_thousandths, fill
from howsure.studies.grounding.reading.data import read_items
from howsure.studies.grounding.reading.users import parse_users
from howsure.studies.grounding.sight_check import check_sight
from howsure.studies.model_job import ModelJob
from howsure.studies.pairs import Opened, check_choice, check_seed, open_models, seed_of
from howsure.runs.pictures import PictureKeeper
from howsure.types import Shown

PathLike = str | os.PathLike[str]

DELTA = 140.0
MAX_PIXELS = 1280 * 28 * 28
"""The most that a model on this machine sees of a screen unless told otherwise, where its kind limits an area."""

CPU_BATCH, GPU_BATCH, SERVER_BATCH, CLICK_BATCH = 4, 32, 32, 8
"""Items that are asked together: as many are lost at most when a run is stopped."""


class Prepared(NamedTuple):
    """Everything that is known before a single token is run."""

    items: Items
    model: Model
    how: Asking
    batches: list[tuple[int, ...]]
    options: dict[str, Any]
    owned: bool
    """Whether the model was opened here, and so is given back when its work is done."""

    def cost(self) -> dict[str, int]:
        """What the run will take at most."""
        count = len(self.items.items)
        answers = count * (1 + self.how.samples)
        images = len({item.image.sha256 for item in self.items.items})
        out = {"items": count, "images": images, "model_calls": answers}
        if self.clicks:
            return out
        return out | {"new_tokens_at_most": answers * self.how.max_new_tokens}

    @property
    def clicks(self) -> bool:
        return Capability.CLICK in self.model.capabilities

    def close(self) -> None:
        if self.owned:
            self.model.close()


class Result(NamedTuple):
    """A finished study: the summary, the samples in the order of the data, and the run folder.

    The samples are without their evidence, the log-probability of every token: `run.records()` has it.
    """

    summary: dict[str, Any]
    samples: list[Sample]
    run: Run

    @property
    def failed(self) -> bool:
        return any(sample.failed for sample in self.samples)

    _repr_html_ = Shown._repr_html_


# -- preparing ------------------------------------------------------------------------------------------------------


def prepare(
    data: PathLike,
    model: str | Model = "ocr",
    *,
    users: str | Sequence[str | int] | None = None,
    delta: float = DELTA,
    parser: str = "strict",
    frame: str | None = None,
    prompt: str | None = None,
    max_new_tokens: int = 512,
    max_pixels: int | None = None,
    samples: int = 0,
    temperature: float = 1.0,
    logprobs: bool = True,
    batch_size: int | None = None,
    image_root: PathLike | None = None,
    boxes: str | None = None,
    box_units: str | None = None,
    max_samples: int | None = None,
    skip_bad: bool = False,
    **model_options: Any,
) -> Prepared:
    """Check options and data, and open the model without its weights."""
    _check_numbers(delta, max_new_tokens, max_pixels, samples, temperature, batch_size)
    check_choice("--parser", parser, PARSERS)
    if frame is not None:
        check_choice("--frame", frame, list(FRAMES))
    wanted = parse_users(users)
    opened = _open(model, max_pixels, model_options)
    items = read_items(
        data,
        users=wanted,
        image_root=image_root,
        boxes=boxes,
        box_units=box_units,
        parser=parser,
        skip_bad=skip_bad,
        max_samples=max_samples,
    )
    _require(opened.model, samples)
    clicks = Capability.CLICK in opened.model.capabilities
    found, why = _frame(frame, items, opened.model, prompt)
    _check_frame(found, opened.model, max_pixels)
    if prompt is not None:
        fill(prompt, "", found)  # a sentence where the template is none
    if clicks and (frame or prompt):
        given = "--frame" if frame else "--prompt"
        raise InputError(
            f"{given} is for models that are asked and write, and {opened.model.name!r} only clicks: leave it out"
        )
    how = Asking(
        frame=found,
        parser=parser,
        delta=delta,
        template=prompt,
        may_refuse=any(item.target.kind == "refusal" for item in items.items),
        max_new_tokens=max_new_tokens,
        samples=samples,
        temperature=temperature,
        logprobs=logprobs,
        server_max_pixels=max_pixels or None,
    )
    batch = batch_size or _batch_size(opened.model)
    options: dict[str, Any] = {"users": wanted, "delta": delta, "max_samples": max_samples, "skip_bad": skip_bad}
    options |= {"batch_size": batch, "data_form": items.form, "decided": items.decided}
    if not clicks:
        options |= {"parser": parser, "frame": found.name, "frame_because": why, "prompt": prompt or "default"}
        options |= {"may_refuse": how.may_refuse, "max_new_tokens": max_new_tokens, "logprobs": logprobs}
        options |= {"samples": samples} | ({"temperature": temperature} if samples else {})
        options |= {"server_max_pixels": how.server_max_pixels} if opened.model.remote else {}
    return Prepared(items, opened.model, how, _batches(len(items.items), batch), options, opened.owned)


def _check_numbers(
    delta: float, max_new_tokens: int, max_pixels: int | None, samples: int, temperature: float, batch_size: int | None
) -> None:
    if not (math.isfinite(delta) and delta >= 0):
        raise InputError(f"--delta must be 0 or more, in thousandths of the screen, not {delta}")
    if not 1 <= max_new_tokens <= 100_000:
        raise InputError(f"--max-new-tokens must be 1 to 100000, not {max_new_tokens}")
    if max_pixels is not None and max_pixels < 0:
        raise InputError(f"--max-pixels must be 0 (what the checkpoint says) or more, not {max_pixels}")
    if not 0 <= samples <= 1000:
        raise InputError(f"--samples must be 0 to 1000, not {samples}")
    if samples and not 0.0 < temperature < 100.0:
        raise InputError(f"--temperature must be above 0 for answers that are drawn, not {temperature}")
    if batch_size is not None and batch_size < 1:
        raise InputError(f"--batch-size must be at least 1, not {batch_size}")


def _open(model: str | Model, max_pixels: int | None, model_options: dict[str, Any]) -> Opened:
    """The model without its weights, and with the limit on what it sees of a screen where its kind has one."""
    (opened,) = open_models([model], model_options)
    if not opened.owned or not opened.model.limits_pixels:
        if max_pixels is not None and not opened.model.remote:
            what = "was opened elsewhere" if not opened.owned else "has no such limit"
            raise InputError(f"--max-pixels is for models that limit what they see, and {opened.model.name!r} {what}")
        return opened
    limit = MAX_PIXELS if max_pixels is None else max_pixels
    return open_models([model], model_options | {"max_pixels": limit or None})[0]


def _require(model: Model, samples: int) -> None:
    """Refuse in one sentence, before any work, what the model cannot do."""
    if Capability.CLICK in model.capabilities:
        if samples:
            raise MissingCapability(f"--samples draws other answers, and {model.name!r} has only one: leave it out")
        return
    model.require(Capability.GENERATE, "grounding")
    if not model.answers_images:
        raise MissingCapability(
            f"grounding needs a model that sees, and {model.name!r} reads text only: take an image-text model, or ocr"
        )


def _frame(frame: str | None, items: Items, model: Model, prompt: str | None) -> tuple[Frame, str]:
    """The frame that answers are read in, and why that one."""
    if frame is not None:
        return FRAMES[frame], "asked for"
    if prompt is None and any(item.prompt is not None and asks_for_thousandths(item.prompt) for item in items.items):
        return FRAMES["relative-1000"], "what the prompts of the data ask for"
    return frame_for(model.name, model.architecture)


def _check_frame(frame: Frame, model: Model, max_pixels: int | None) -> None:
    """Refuse what could not be turned into a place, and a limit that would change nothing."""
    if frame.needs_seen_size and not (model.limits_pixels or model.remote):
        raise InputError(
            f"--frame {frame.name} counts in pixels of the image as the network gets it, which {model.name!r} does not "
            "tell: choose another --frame"
        )
    if model.remote and max_pixels is not None and not frame.needs_seen_size:
        raise InputError(f"--max-pixels is for --frame resized-pixels where a server answers; {model.name!r} is one")
    if model.remote and max_pixels and max_pixels < QWEN25_TOKEN_SIDE**2:
        raise InputError(f"--max-pixels must be at least {QWEN25_TOKEN_SIDE**2}, which is one token, not {max_pixels}")


def _batch_size(model: Model) -> int:
    if Capability.CLICK in model.capabilities:
        return CLICK_BATCH
    if model.remote:
        return SERVER_BATCH
    return CPU_BATCH if model.fingerprint().get("device", "cpu") == "cpu" else GPU_BATCH


def _batches(count: int, size: int) -> list[tuple[int, ...]]:
    return [tuple(range(start, min(start + size, count))) for start in range(0, count, size)]


# -- carrying out ---------------------------------------------------------------------------------------------------


def carry_out(
    prepared: Prepared,
    source: PathLike,
    *,
    out: PathLike,
    seed: int = 0,
    retry_failed: bool = False,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> Result:
    """Ask what is not asked yet, then judge all of it. The same call takes up a stopped run."""
    check_seed(seed)
    delta = prepared.how.delta
    ids = [item.id for item in prepared.items.items]
    writer = RunWriter(
        out, _identity(prepared, seed), len(ids), source=os.fspath(source), retry_failed=retry_failed, lacks=lacks
    )
    with writer:
        files = UserFiles(writer.path, writer.samples)
        items = prepared.items.items
        with PictureKeeper(writer.path) as pictures:
            pictures.keep(item.image for item in items if item.id in writer.done)

            def after(samples: list[Sample]) -> None:
                files.append(samples)
                pictures.keep(items[sample.index].image for sample in samples)

            work_through(
                writer,
                ids,
                prepared.batches,
                Asker(prepared.model, prepared.how),
                progress or NoProgress(),
                "grounding",
                piece=_pieces(prepared, seed, writer),
                engine=engine,
                after=after,
            )
        samples = sorted(writer.samples, key=lambda sample: sample.index)
        summary = judge(samples, delta=delta, skipped=prepared.items.skipped, seed=seed)
        files.finish(summary, samples, lambda group: judge_group(group, delta=delta))
        writer.finish(summary)
    return Result(summary, samples, Run(out))


def lacks(sample: Sample) -> bool:
    """Whether something failed that another attempt may give: the answer, or one of those that were drawn."""
    drawn = sample.result.get("samples")
    return sample.failed or (isinstance(drawn, dict) and drawn.get("failed") not in (None, 0))


class Together(NamedTuple):
    """Screens that are asked together, with their places in the data, and the seed of their drawn answers."""

    indices: tuple[int, ...]
    items: tuple[Item, ...]
    seed: int


def _pieces(prepared: Prepared, seed: int, writer: RunWriter) -> Callable[[tuple[int, ...]], Together]:
    """What a batch holds decides the last digits on this machine, so that it is asked as a whole again. To a server it
    is all the same, and it is asked only for what is missing."""
    items, remote = prepared.items.items, prepared.model.remote

    def piece(batch: tuple[int, ...]) -> Together:
        wanted = tuple(i for i in batch if not (remote and items[i].id in writer.done))
        return Together(wanted, tuple(items[i] for i in wanted), seed_of(seed, batch[0]))

    return piece


class Asker(ModelJob[Together, list[Sample]]):
    """Asks about the screens of a batch, wherever it is."""

    looks_ahead = True

    def __init__(self, model: Model, how: Asking) -> None:
        super().__init__(model)
        self.how = how

    def load(self) -> None:
        make_ready(self.model, self.how)

    def prefetch(self, piece: Together) -> None:
        """The model can prepare the next screens meanwhile."""
        self.model.prefetch([ScoreItem(self.how.conversation(item), ()) for item in piece.items])

    def __call__(self, piece: Together) -> list[Sample]:
        return ask(self.model, piece.indices, piece.items, self.how._replace(seed=piece.seed))

    def packed(self, piece: Together) -> Together:
        return piece._replace(items=tuple(item._replace(image=item.image.with_content()) for item in piece.items))

    def given_up(self, piece: Together, why: str) -> list[Sample]:
        lost = Failure("worker_lost", why)
        rows = zip(piece.indices, piece.items, strict=True)
        return [to_sample(i, item, lost, self.how.delta) for i, item in rows]


def make_ready(model: Model, how: Asking) -> None:
    """Weights, and of a server whether it sees and gives log-probabilities, before anything is shown as under way."""
    model.load()
    if Capability.CLICK in model.capabilities:
        return
    if model.remote:
        check_sight(model)
    if not how.logprobs:
        return
    try:
        model.check_logprobs()
    except MissingCapability as error:
        raise MissingCapability(f"{error}; --no-logprobs does without them") from error


def _identity(prepared: Prepared, seed: int) -> Identity:
    model, items = prepared.model, prepared.items
    return Identity(
        study="grounding",
        options=prepared.options,
        model={"name": model.name, **model.fingerprint()},
        data={"fingerprint": items.fingerprint, "skipped": items.skipped},
        seed=seed,
    )
