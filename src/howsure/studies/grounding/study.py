"""Grounding: where the model clicks, how far off that is, and whether it knows."""

from __future__ import annotations

import io
import re
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from howsure.errors import InputError, MissingCapability
from howsure.models.contract import MODEL, Capability, Message, Model, ModelOptions, ScoreItem
from howsure.models.images import Picture
from howsure.options import Opt
from howsure.runs import Engine, Run, RunWriter, Sample
from howsure.runs.run import Batch, Opened, PairOptions, Plan
from howsure.studies.grounding.ask import Asking, about, ask
from howsure.studies.grounding.comparison import GroundingComparison, compare
from howsure.studies.grounding.exports import UserFiles
from howsure.studies.grounding.frames import FRAMES, QWEN25_TOKEN_SIDE, Frame, asks_for_thousandths, frame_for
from howsure.studies.grounding.judge import GroundingSummary, judge, judge_group
from howsure.studies.grounding.options import ReadingOptions, parse_users
from howsure.studies.grounding.reading.data import read_screens
from howsure.studies.grounding.record import GroundingEvidence, GroundingRecord, Item, Samples, Screens
from howsure.studies.study import Session, Study, batch_of, open_models, python_function, seed_of

MAX_PIXELS = 1280 * 28 * 28
"""The most that a model on this machine sees of a screen unless told otherwise, where its kind limits an area."""

CPU_BATCH, GPU_BATCH, SERVER_BATCH, CLICK_BATCH = 4, 32, 32, 8
"""Items that are asked together: as many are lost at most when a run is stopped."""

DEMO_TOKENS = 128


def _no_instruction(prompt: str) -> str | None:
    return None if "{instruction}" in prompt else f"{prompt!r} has no {{instruction}}: write it where that belongs"


@dataclass(frozen=True)
class GroundingOptions(ReadingOptions, PairOptions, ModelOptions):
    """Which screens are shown to whom, how they are asked about, and when a click is near enough."""

    model: Annotated[str | Model, MODEL] = "ocr"
    _: KW_ONLY
    delta: Annotated[
        float, Opt("A click this near counts as accurate, in thousandths of width and height.", least=0, identity="no")
    ] = 140.0
    frame: Annotated[
        str | None,
        Opt(
            f"What the model's numbers mean: {', '.join(FRAMES)}. Default: by the model's kind, or what the data's "
            "prompts ask for.",
            choices=tuple(FRAMES),
            identity="no",
        ),
    ] = None
    prompt: Annotated[
        str | None,
        Opt(
            "Template over {instruction} and perhaps {frame}; \\n is a new line. Default: the data's own, else one "
            "that asks for a description and then the point.",
            check=_no_instruction,
            escapes=True,
            identity="no",
        ),
    ] = None
    max_new_tokens: Annotated[int, Opt("Longest answer, in tokens.", least=1, most=100_000, identity="no")] = 512
    max_pixels: Annotated[
        int | None,
        Opt(
            "Most pixels of a screen that a local Qwen-VL model sees; 0: the checkpoint's own limit. Default: "
            f"{MAX_PIXELS}.",
            least=0,
            identity="no",
        ),
    ] = None
    samples: Annotated[
        int,
        Opt(
            "Sample N more answers per screen; their spread is a confidence. --retry-failed also repeats those "
            "that failed.",
            least=0,
            most=1000,
            identity="no",
        ),
    ] = 0
    temperature: Annotated[float, Opt("Temperature of the sampled answers.", identity="no")] = 1.0
    logprobs: Annotated[
        bool,
        Opt("Ask for the probabilities of the coordinates' tokens.", identity="no"),
    ] = True
    batch_size: Annotated[
        int | None, Opt("Screens asked together. Default: 32, on a CPU 4, for ocr 8.", least=1, identity="no")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples and not 0.0 < self.temperature < 100.0:
            raise InputError(f"--temperature must be above 0 for answers that are drawn, not {self.temperature}")


class GroundingStudy(Study[GroundingOptions, Item, GroundingRecord]):
    """Where does a model click, how far off is that, and does it know?

    The model gets every screen with its instruction; the point in its answer is
    compared with the target. Distances are in thousandths of width and height. An answer
    that cannot be read is a miss without coordinates, and counted. Confidence: the
    probabilities of the coordinates' tokens, the spread of sampled answers
    (--samples), or ocr's match. Other forms of data: `howsure grounding convert`;
    pictures of clicks: `howsure grounding overlay`.

    Question   a screen and an instruction: does the click land where it belongs, and is the model surer where it does?
    Data       user_<id>.pkl (read without running anything in them), JSON lines, ScreenSpot, v2 and Pro, OSWorld-G
    Units      screens: all samples on one together
    Asks       `generate` with the screen in the user's message, or `click` for the built-in baseline `ocr`
    Measure    L2 in the 0–1000 frame, accuracy at δ, point in box or polygon; an unreadable answer is a miss
    Comes out  figures per user, platform, type and application, with intervals clustered by image; whether the
               probabilities of the coordinates, the spread of drawn clicks, or ocr's match tell hits from misses;
               out.json and results.txt per user; overlays

    Example: howsure grounding run dataset_pkl --users 1-10 --model hf:Qwen/Qwen3-VL-8B-Instruct
    """

    name, options, record, summary = "grounding", GroundingOptions, GroundingRecord, GroundingSummary
    comparison = GroundingComparison
    evidence, looks_ahead = GroundingEvidence, True

    def read(self, options: GroundingOptions, engine: Engine) -> Screens:
        return read_screens(options)

    def open_models(self, options: GroundingOptions) -> list[Opened | None]:
        """With the limit on what they see of a screen where their kind has one."""
        given, opened = options.max_pixels, super().open_models(options.with_(max_pixels=None))
        limit = MAX_PIXELS if given is None else given
        for i, one in enumerate(opened):
            assert one is not None
            model = one.model
            if one.owned and model.limits_pixels:
                opened[i] = open_models([model.name], options.with_(max_pixels=limit or None))[0]
            elif given is not None and not model.remote:
                what = "has no such limit" if one.owned else "was opened elsewhere"
                raise InputError(f"--max-pixels is for models that limit what they see, and {model.name!r} {what}")
        return opened

    def plan(self, items: Screens, model: Model, options: GroundingOptions) -> Plan[GroundingOptions]:
        clicks = Capability.CLICK in model.capabilities
        _require(model, options)
        frame, why = _frame(items, model, options)
        how = Asking(
            frame=frame,
            parser=options.parser,
            delta=options.delta,
            template=options.prompt,
            may_refuse=any(item.target.kind == "refusal" for item in items.items),
            max_new_tokens=options.max_new_tokens,
            samples=options.samples,
            temperature=options.temperature,
            logprobs=options.logprobs,
            server_max_pixels=options.max_pixels or None,
        )
        count, size = len(items.items), options.batch_size or _batch_size(model)
        batches = [
            batch_of(items.items, range(first, min(first + size, count)))._replace(seed=seed_of(options.seed, first))
            for first in range(0, count, size)
        ]
        chosen = {
            "users": parse_users(options.users),
            "delta": options.delta,
            "max_samples": options.max_samples,
            "skip_bad": options.skip_bad,
            "batch_size": size,
            "data_form": items.form,
            "decided": items.decided,
        }
        if not clicks:
            chosen |= {
                "parser": options.parser,
                "frame": frame.name,
                "frame_because": why,
                "prompt": options.prompt or "default",
                "may_refuse": how.may_refuse,
                "max_new_tokens": options.max_new_tokens,
                "logprobs": options.logprobs,
                "samples": options.samples,
                **({"temperature": options.temperature} if options.samples else {}),
                **({"server_max_pixels": how.server_max_pixels} if model.remote else {}),
            }

        def cost() -> dict[str, int]:
            answers = count * (1 + options.samples)
            images = len({item.image.sha256 for item in items.items})
            taken = {"items": count, "images": images, "model_calls": answers}
            return taken if clicks else taken | {"new_tokens_at_most": answers * options.max_new_tokens}

        return Plan(batches, options, count, how=how, cost=cost, more_identity=chosen)

    def load(self, model: Model, how: Asking) -> None:
        """Weights, and of a server whether it sees and gives log-probabilities, before the first screen is shown."""
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

    def prefetch(self, model: Model, batch: Batch, how: Asking) -> None:
        """The model can prepare the next screens meanwhile."""
        model.prefetch([ScoreItem(how.conversation(item), ()) for item in batch.items])

    def ask(self, model: Model, batch: Batch, how: Asking) -> list[Sample[GroundingRecord]]:
        return ask(model, batch, how)

    def about(self, item: Item) -> GroundingRecord:
        return about(item)

    def lacks(self, sample: Sample[GroundingRecord]) -> bool:
        """Whether something failed that another attempt may give: the answer, or one of those that were drawn."""
        drawn = sample.result.samples
        return sample.failed or (drawn is not None and drawn.failed > 0)

    def session(
        self, items: Screens, plan: Plan[GroundingOptions], model: Model, writer: RunWriter
    ) -> GroundingSession:
        return GroundingSession(items, plan, writer, remote=model.remote)

    def judge(self, samples: Samples, options: GroundingOptions, items: Screens) -> GroundingSummary:
        return judge(samples, delta=options.delta, skipped=items.skipped, seed=options.seed)

    def compare(self, a: Run, b: Run) -> GroundingComparison:
        return compare(a, b)

    def demo(self, model: Model, data: Path) -> GroundingOptions:
        """On a drawn screen; the built-in baseline clicks on it where the model cannot see."""
        seeing = model if model.answers_images and not model.remote else "ocr"
        return GroundingOptions(data / "demo_grounding.jsonl", seeing, max_new_tokens=DEMO_TOKENS)


class GroundingSession(Session):
    """Keeps the files of each user beside the samples."""

    def __init__(self, items: Screens, plan: Plan[GroundingOptions], writer: RunWriter, *, remote: bool) -> None:
        super().__init__(items, plan, writer)
        self.remote = remote
        self.files = UserFiles(writer.path, writer.samples)

    def sent(self, batch: Batch) -> Batch:
        """What a batch holds decides the last digits on this machine, so that it is asked as a whole again. To a server
        it is all the same, and it is asked only for what is missing."""
        if not self.remote:
            return batch
        wanted = [i for i, name in zip(batch.indices, batch.ids, strict=True) if name not in self.writer.done]
        return batch_of(self.items.items, wanted)._replace(seed=batch.seed)

    def written(self, samples: Samples) -> None:
        self.files.append(samples)

    def finish(self, summary: GroundingSummary, samples: Samples) -> None:
        self.files.finish(summary.delta, samples, lambda group: judge_group(group, delta=summary.delta))


GROUNDING = GroundingStudy()
grounding = python_function(GroundingOptions, GROUNDING)


# -- what a model must be able to do --------------------------------------------------------------------------------


def _require(model: Model, options: GroundingOptions) -> None:
    """Refuse in one sentence, before any work, what the model cannot do."""
    if Capability.CLICK in model.capabilities:
        if options.samples:
            raise MissingCapability(f"--samples draws other answers, and {model.name!r} has only one: leave it out")
        if options.frame or options.prompt:
            given = "--frame" if options.frame else "--prompt"
            raise InputError(
                f"{given} is for models that are asked and write, and {model.name!r} only clicks: leave it out"
            )
        return
    model.require(Capability.GENERATE, "grounding")
    if not model.answers_images:
        raise MissingCapability(
            f"grounding needs a model that sees, and {model.name!r} reads text only: take an image-text model, or ocr"
        )


def _frame(items: Screens, model: Model, options: GroundingOptions) -> tuple[Frame, str]:
    """The frame that answers are read in, and why that one. Refuses what could not be turned into a place, and a limit
    that would change nothing."""
    prompts = [] if options.prompt is not None else [item.prompt for item in items.items if item.prompt is not None]
    if options.frame is not None:
        frame, why = FRAMES[options.frame], "asked for"
    elif any(map(asks_for_thousandths, prompts)):
        frame, why = FRAMES["relative-1000"], "what the prompts of the data ask for"
    else:
        frame, why = frame_for(model.name, model.architecture)
    most = options.max_pixels
    if frame.needs_seen_size and not (model.limits_pixels or model.remote):
        raise InputError(
            f"--frame {frame.name} counts in pixels of the image as the network gets it, which {model.name!r} does not "
            "tell: choose another --frame"
        )
    if model.remote and most is not None and not frame.needs_seen_size:
        raise InputError(f"--max-pixels is for --frame resized-pixels where a server answers; {model.name!r} is one")
    if model.remote and most and most < QWEN25_TOKEN_SIDE**2:
        raise InputError(f"--max-pixels must be at least {QWEN25_TOKEN_SIDE**2}, which is one token, not {most}")
    return frame, why


def _batch_size(model: Model) -> int:
    if Capability.CLICK in model.capabilities:
        return CLICK_BATCH
    if model.remote:
        return SERVER_BATCH
    return CPU_BATCH if model.fingerprint().get("device", "cpu") == "cpu" else GPU_BATCH


# -- does a server see? ---------------------------------------------------------------------------------------------

BLANK_SIDE_PX = 224
_OF_IMAGES = re.compile(r"image|vision|multi-?modal", re.I)


def check_sight(model: Model) -> None:
    """Show a blank picture, and raise in one sentence where the server says that it takes none.

    A server takes the name of a text model as gladly, and refuses every screen, one after the other, each as often as a
    fault that passes is asked again. Ten thousand screens later there would be an accuracy of 0 %. Only a refusal that
    speaks of images counts: another fault may pass, and is for the samples to meet.
    """
    from PIL import Image

    size, content = (BLANK_SIDE_PX, BLANK_SIDE_PX), io.BytesIO()
    Image.new("RGB", size, "white").save(content, "PNG")
    shown = (Message("user", "What is this?", (Picture.made(content.getvalue(), "of the probe", size),)),)
    answer = model.generate([shown], max_tokens=16, top_logprobs=None)[0]
    if answer.failure is not None and _OF_IMAGES.search(answer.failure):
        raise MissingCapability(
            f"grounding needs a model that sees, and {model.name!r} refuses images ({answer.failure}); "
            "take an image-text model, or ocr"
        )
