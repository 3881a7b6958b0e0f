"""Trust: how much do grounding and language each reduce a model's uncertainty about its next action?"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from howsure.errors import InputError, MissingCapability, ModelError, WorkersLost
from howsure.models.contract import Capability, Failure, Model, ModelOptions
from howsure.models.images import Picture
from howsure.options import HERE, Opt
from howsure.runs import Engine, LocalEngine, Run, RunWriter, Sample
from howsure.runs.run import PathLike, Plan, RunOptions
from howsure.storage import shown_path
from howsure.studies.study import Session, Study
from howsure.studies.trust.artefacts import (
    Frames,
    StepTable,
    StepTally,
    end_name,
    grounding_after,
    grounding_name,
    write_grounding,
)
from howsure.studies.trust.comparison import TrustComparison, compare
from howsure.studies.trust.elicit import EVIDENCE, Scored, elicitor, usual_evidence
from howsure.studies.trust.episode import Episode, EpisodeConfig, EpisodeEnd, Listener, Step
from howsure.studies.trust.json_places import printable
from howsure.studies.trust.judge import TrustSummary, judge
from howsure.studies.trust.knowledge import read_knowledge, repeats, shipped_knowledge
from howsure.studies.trust.record import TrustEvidence, TrustRecord
from howsure.studies.trust.steps import CONDITIONS
from howsure.studies.trust.world import World, open_world

OnStep = Callable[[Sample[TrustRecord]], None]
AnyOptions = TypeVar("AnyOptions", bound="WorldOptions")


def _too_small(vocab_size: int) -> str | None:
    return f"is how many tokens the model knows, which are more than {vocab_size}" if vocab_size <= 21 else None


def _no_instruction(instruction: str) -> str | None:
    if not instruction.strip():
        return "is empty: leave it out to have the world's own"
    if instruction != printable(instruction):
        return "is not UTF-8, which a model could not read: write it as UTF-8"
    return None


@dataclass(frozen=True)
class WorldOptions(RunOptions, ModelOptions):
    """A world, and how a model is asked in it."""

    world: Annotated[
        PathLike,
        Opt(
            "A map (a .json file, or one of `howsure trust maps`) or the name of a MiniGrid or BabyAI environment.",
            argument=True,
            identity="no",
        ),
    ]
    model: Annotated[
        str | Model, Opt("Model name; `howsure models` lists the kinds.", flags=("--model", "-m"), identity="no")
    ] = "smollm2"
    _: KW_ONLY
    evidence: Annotated[
        str | None,
        Opt(
            "scored: the exact distribution over the actions. logprobs: the action inside a JSON answer. verbalized: "
            "probabilities that the model writes down. Default: scored for models on this machine, logprobs for "
            "servers.",
            choices=EVIDENCE,
            identity="no",
        ),
    ] = None
    view: Annotated[
        str | None,
        Opt(
            "What the model sees: image, text or both. Default: image if it is known to take images, else text.",
            choices=("image", "text", "both"),
            identity="no",
        ),
    ] = None
    top_logprobs: Annotated[
        int,
        Opt("Alternatives asked for at each token, with --evidence logprobs.", least=1, most=20, identity="no"),
    ] = 10
    max_tokens: Annotated[
        int | None, Opt("Longest answer, in tokens. Default: 256, and 512 for verbalized.", least=1, identity="no")
    ] = None
    temperature: Annotated[
        float, Opt("Temperature of written answers; 0 takes the likeliest token.", least=0, most=100, identity="no")
    ] = 0.0


@dataclass(frozen=True, kw_only=True)
class TrustOptions(WorldOptions):
    """How episodes are played."""

    instruction: Annotated[
        str | None,
        Opt("The language instruction L. Default: the world's own mission.", check=_no_instruction, identity="no"),
    ] = None
    grounding: Annotated[
        PathLike | None,
        Opt(
            "What is known about the place, S: one sentence per line, or a JSON list. Default: what comes with a map "
            "of `howsure trust maps`, else nothing.",
            path="any",
            identity="no",
        ),
    ] = None
    episodes: Annotated[
        int,
        Opt(
            "How many episodes; each begins with the next seed. T takes at least 5 independent ones.",
            least=1,
            most=9999,
            identity="no",
        ),
    ] = 1
    max_steps: Annotated[int, Opt("Longest episode.", least=1, most=9999, identity="no")] = 20
    own_grounding: Annotated[
        bool,
        Opt("Also keep what the model itself says about the place, asked without the instruction.", identity="no"),
    ] = False
    carry: Annotated[
        bool,
        Opt(
            "Start each episode with what was known at the end of the one before; all then count as one episode.",
            identity="no",
        ),
    ] = False
    summarise: Annotated[
        bool, Opt("Let the model describe what happened in an episode; otherwise plain facts.", identity="no")
    ] = False
    act: Annotated[
        str,
        Opt(
            "best: the likeliest action is taken, or the one that was written. sample: one that is drawn from the "
            "distribution, so that episodes on one map differ.",
            choices=("best", "sample"),
            identity="no",
        ),
    ] = "best"
    clock: Annotated[
        str | None,
        Opt(
            "What `timestamp` is: real, the time of day; world, one second per step from 2000-01-01 on, so that equal "
            "runs give equal files. Default: world for scored models on this machine, else real.",
            choices=("world", "real"),
            identity="no",
        ),
    ] = None
    frames: Annotated[
        bool,
        Opt("Keep every frame, and make a replay of them.", flags=("--frames/--no-frames",), identity="no"),
    ] = True
    vocab_size: Annotated[
        int | None,
        Opt(
            "Tokens in the model's vocabulary; gives entropies from log-probabilities, and T, closer bounds.",
            check=_too_small,
            identity="no",
        ),
    ] = None
    listen: Annotated[Listener | None, HERE] = None
    """Called before each step with the episode; gives a `UserInput`: feedback, which becomes knowledge, or a new
    instruction."""
    on_step: Annotated[OnStep | None, HERE] = None
    """Hears of every finished step."""

    @property
    def most_steps(self) -> int:
        return self.episodes * self.max_steps


class Place(NamedTuple):
    """Where a model acts, and what is known about it beforehand."""

    world: World
    knowledge: list[str]

    def identity(self) -> dict[str, Any]:
        return self.world.fingerprint()

    def picture(self, index: int) -> Picture | None:
        """The study keeps frames of its own."""
        return None


class EpisodeBatch(NamedTuple):
    """An episode to be played: the steps of it that are on the disk already, and which of these lack their frame."""

    number: int
    knowledge: list[str]
    kept: list[Sample[TrustRecord]]
    without_frame: frozenset[str]


def settled(options: AnyOptions, model: Model) -> AnyOptions:
    """With the evidence and the view that this model is asked for and shown, where that was left open."""
    evidence = options.evidence or usual_evidence(model)
    sees = model.takes_images if evidence == "scored" else model.answers_images
    view = options.view
    if view is None:
        # A server may have a model with eyes behind it, or not: it has to be said.
        view = "image" if sees and not model.name.startswith("openai:") else "text"
    elif view != "text" and not sees:
        raise MissingCapability(
            f"--view {view} needs a model that sees, and {model.name!r} reads text only: --view text"
        )
    return options.with_(evidence=evidence, view=view)


class WorldStudy(Study[AnyOptions, Any, Any]):
    """What studies share that ask a model in a world."""

    def source(self, items: Any, options: AnyOptions) -> str:
        return str(items.world.name)

    def release(self, items: Any) -> None:
        items.world.close()

    def load(self, model: Model, how: Any) -> None:
        """Weights, and the one question whether log-probabilities come at all, before anything is under way."""
        model.load()
        if how.options.evidence != "logprobs":
            return
        try:
            model.check_logprobs(how.options.top_logprobs)
        except ModelError as error:
            words = str(error)
            about = isinstance(error, MissingCapability) or "logprob" in words.rpartition("): ")[2].lower()
            if not about:
                raise
            raise MissingCapability(f"{words}; --evidence verbalized does without them") from error


class TrustStudy(WorldStudy[TrustOptions]):
    """How much grounding and language each reduce a model's uncertainty about its next action.

    At every step the model is asked three times at once: with nothing (X), with
    what is known about the place (X|S), and with the instruction as well (X|L,S),
    whose action is taken. T = (H(X) − H(X|S)) / (H(X) − H(X|L,S)), entropies in
    bits: the share of the gain that grounding gives alone. It takes at least 5
    independent episodes and a gain. Each action is compared with the shortest
    path. Existing logs: `howsure trust analyse`;
    one joint distribution: `howsure trust coherent`; the maps that come with
    howsure: `howsure trust maps`.

    Question   a model acts in a grid world; which part of what it knows about its action comes from grounding alone?
    World      JSON maps of emoji, and any MiniGrid or BabyAI environment; shown as a picture, as text, or both
    Asks       the same scene three times at once: X (nothing), X|S (grounding), X|L,S (grounding and instruction)
    Measure    T from the entropies of the action, by one of three kinds of evidence
    Comes out  every step with its entropies, T over episodes and the run with its interval, the actions against the
               shortest path; steps.csv, frames, a replay

    Example: howsure trust run home --model smollm2 --episodes 10 --act sample
    """

    name, options, record, summary = "trust", TrustOptions, TrustRecord, TrustSummary
    evidence, comparison = TrustEvidence, TrustComparison

    def read(self, options: TrustOptions, engine: Engine) -> Place:
        if engine.name != LocalEngine.name:
            check_apart(options)
        world = open_world(options.world)
        if options.grounding is None:
            knowledge, where = shipped_knowledge(world.name), "the map's own grounding"
        else:
            source = os.fspath(options.grounding)
            knowledge, where = read_knowledge(source), shown_path(source)
        if leak := next((one for one in knowledge if repeats(one, [options.instruction])), None):
            raise InputError(
                f"{where} holds the instruction ({leak!r}): it would be in the prompt without language too, so take "
                "that sentence out"
            )
        return Place(world, knowledge)

    def plan(self, items: Place, model: Model, options: TrustOptions) -> Plan[TrustOptions]:
        if options.summarise:
            model.require(Capability.GENERATE, "--summarise")
        options = settled(options, model)
        asks = elicitor(options, model, items.world.actions, options.vocab_size)
        clock = "world" if options.evidence == "scored" and not model.remote else "real"
        options = options.with_(clock=options.clock or clock)
        how = EpisodeConfig(items.world, model, asks, options.for_workers().with_(listen=options.listen))
        return Plan(
            (),
            options,
            options.most_steps,
            how,
            cost=lambda: _cost(how, items.knowledge),
            more_identity=_identity(options, items.knowledge),
            counted_by=(options.most_steps, StepTally()),
        )

    def ask(self, model: Model, batch: EpisodeBatch, how: EpisodeConfig) -> Iterator[Step | EpisodeEnd]:
        """Each step as soon as it is done, those on the disk that lack their frame too, and at last the end."""
        episode = Episode(how, batch.number, batch.knowledge)
        for sample in batch.kept:
            if sample.id in batch.without_frame:
                yield Step(sample, episode.frame())
            episode.replay(sample.result)
        while not episode.over:
            yield episode.step()
        yield episode.end()

    def judge(self, samples: Sequence[Sample[TrustRecord]], options: TrustOptions, items: Place) -> TrustSummary:
        return judge(samples, options)

    def compare(self, a: Run, b: Run) -> TrustComparison:
        return compare(a, b)

    def session(self, items: Place, plan: Plan, model: Model, writer: RunWriter) -> TrustSession:
        return TrustSession(items, plan, writer)

    def failed_batch(self, batch: EpisodeBatch, failure: Failure, how: EpisodeConfig) -> Any:
        """No step stands for an episode that cannot be played."""
        raise WorkersLost(failure.detail)

    def with_files(self, batch: EpisodeBatch) -> EpisodeBatch:
        return batch

    def demo(self, model: Model, data: Path) -> TrustOptions:
        """Several short episodes that differ say more of T than a long one, which identifies nothing."""
        return TrustOptions("home", model, episodes=6, max_steps=2, act="sample")

    def worker_fingerprint(self, model: Model | None, how: EpisodeConfig) -> dict[str, Any]:
        return super().worker_fingerprint(model, how) | {"world": how.world.fingerprint()}


TRUST = TrustStudy()


def check_apart(options: TrustOptions) -> None:
    """Refuse what makes an episode wait for another, or for a person."""
    if options.carry:
        raise InputError(
            "--carry makes each episode wait for the one before, so nothing can be shared out: leave out one "
            "of --carry and --engine ray"
        )
    if options.listen is not None:
        raise InputError("--interactive needs the person at this terminal: leave --engine out")


def _identity(options: TrustOptions, knowledge: Sequence[str]) -> dict[str, Any]:
    """What makes a run of trust this run, in the order that run.json has always had."""
    names = ["evidence", "instruction", "grounding", "episodes", "max_steps", "view", "own_grounding", "carry"]
    names += ["summarise", "act", "clock", "frames"]
    digest = f"sha256:{hashlib.sha256(chr(10).join(knowledge).encode()).hexdigest()}" if knowledge else None
    about = {name: getattr(options, name) for name in names} | {"grounding": digest}
    return about | {"interactive": options.listen is not None} | asked_with(options, "vocab_size")


def asked_with(options: WorldOptions, *more: str) -> dict[str, Any]:
    """The options that answers which are written depend on; `more` count with log-probabilities."""
    names = [] if options.evidence == "scored" else ["max_tokens", "temperature"]
    names += ["top_logprobs", *more] if options.evidence == "logprobs" else []
    return {name: getattr(options, name) for name in names}


def _cost(how: EpisodeConfig, knowledge: list[str]) -> dict[str, int]:
    """What the run takes at most, since an episode may end earlier; with wording feedback, and the summaries."""
    options, asks, model = how.options, how.elicitor, how.model
    words_feedback = options.listen is not None and Capability.GENERATE in model.capabilities
    more = int(words_feedback) * options.most_steps + (options.episodes if options.summarise else 0)
    cost = {"episodes": options.episodes, "steps_at_most": options.most_steps}
    if not isinstance(asks, Scored):
        return cost | {"model_calls_at_most": len(CONDITIONS) * asks.most_calls * options.most_steps + more}
    plan = model.plan_scores(asks.items(Episode(how, 1, knowledge).prompts()))
    calls = len(plan.batches) * options.most_steps + more
    return cost | {"model_calls_at_most": calls, "tokens_at_most": plan.tokens * options.most_steps}


class TrustSession(Session):
    """Writes the steps as they come, and what a run of trust keeps beside them; links episodes that asked the same."""

    def __init__(self, items: Place, plan: Plan, writer: RunWriter) -> None:
        super().__init__(items, plan, writer)
        self.options: TrustOptions = plan.options
        self.kept: dict[int, list[Sample[TrustRecord]]] = {}
        self._chains: dict[int, str] = {}
        """By episode: a digest of all that it asked so far."""
        self._first_asked_by: dict[str, int] = {}
        self._picture: Picture | None = None
        kept = sorted(writer.samples, key=lambda sample: sample.index)
        for sample in kept:
            self.kept.setdefault(sample.result.episode, []).append(sample)
            self._link(sample.result)
        self.frames = Frames(self.folder, self.options.frames)
        self.table = StepTable(self.folder, self.options.evidence or "", kept)

    def todo(self) -> Iterable[EpisodeBatch]:
        """The episodes that are not whole. With --carry the next begins with what was known at the end of the last."""
        knowledge = self.items.knowledge
        for number in range(1, self.options.episodes + 1):
            kept = self.kept.get(number, [])
            lacking = self.frames.missing([sample.id for sample in kept])
            ended = grounding_after(self.folder, number)
            if ended is None or lacking or self.frames.missing([end_name(number)]):
                yield EpisodeBatch(number, knowledge, kept, lacking)
            else:
                self._leave_out(self.options.max_steps - len(kept))
            if self.options.carry:
                knowledge = grounding_after(self.folder, number) or []

    def samples(self, batch: EpisodeBatch, answered: Iterable[Step | EpisodeEnd]) -> Generator[list[Sample]]:
        for one in answered:
            if isinstance(one, EpisodeEnd):
                self._end(batch.number, one)
                if one.steps < self.options.max_steps:
                    yield []  # which has the progress shown
            elif one.sample.id in batch.without_frame:
                self.frames.put(one.sample.id, one.picture.read())
            else:
                self._link(one.sample.result)
                self._picture = one.picture
                yield [one.sample]

    def written(self, samples: Sequence[Sample[TrustRecord]]) -> None:
        for sample in samples:
            self.table.append(sample.result)
            if self._picture is not None:
                self.frames.put(sample.id, self._picture.read())
            if self.options.on_step is not None:
                self.options.on_step(sample)

    def finish(self, summary: TrustSummary, samples: Sequence[Sample[TrustRecord]]) -> None:
        self.frames.write_replay(samples)

    def close(self) -> None:
        self.table.close()

    def _link(self, record: TrustRecord) -> None:
        """Say which episode first asked all that this one has asked up to this step."""
        before = self._chains.get(record.episode, "")
        chain = self._chains[record.episode] = hashlib.sha256(f"{before}{record.asked}".encode()).hexdigest()
        if self.options.act != "sample":
            record.first_episode = self._first_asked_by.setdefault(chain, record.episode)

    def _end(self, number: int, end: EpisodeEnd) -> None:
        if grounding_after(self.folder, number) is None:
            write_grounding(self.folder, number, end.knowledge)
            self.writer.keep(grounding_name(number))
        self.frames.put(end_name(number), end.frame.read())
        self._leave_out(self.options.max_steps - end.steps)

    def _leave_out(self, steps: int) -> None:
        assert self.plan.counted_by is not None
        _, tally = self.plan.counted_by
        assert isinstance(tally, StepTally)
        tally.leave_out(steps)
