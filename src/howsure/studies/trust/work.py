"""From a world and a model to a finished run: prepare without weights, then play the episodes and judge them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from howsure.errors import InputError, MissingCapability
from howsure.models.contract import Capability, Model
from howsure.runs import Engine, Identity, LocalEngine, NoProgress, Progress, Run, RunWriter, Sample
from howsure.storage import shown_path
from howsure.studies.pairs import check_choice, check_seed, open_models
from howsure.studies.trust.elicit import Elicitor, Scored, elicitor, usual_evidence
from howsure.studies.trust.json_places import printable
from howsure.studies.trust.judge import judge
from howsure.studies.trust.keeping import Keeper, OnStep, Pages, StepTally, gained_after, gained_name, keep_gained
from howsure.studies.trust.knowledge import read_knowledge, repeats, shipped_knowledge
from howsure.studies.trust.play import Episode, Listener, Ways
from howsure.studies.trust.playing import Chains, Player, Turn, check_apart, what_is_known
from howsure.studies.trust.prompts import CONDITIONS
from howsure.studies.trust.table import StepTable
from howsure.studies.trust.world import World, open_world
from howsure.types import Shown

VIEWS = ("image", "text", "both")
ACTS = ("best", "sample")
CLOCKS = ("world", "real")
PathLike = str | os.PathLike[str]


class Prepared(NamedTuple):
    """Everything that is known before a model is loaded."""

    world: World
    model: Model
    asking: Elicitor
    knowledge: list[str]
    instruction: str | None
    options: dict[str, Any]
    owned: bool

    @property
    def most_steps(self) -> int:
        return int(self.options["episodes"] * self.options["max_steps"])

    def cost(self) -> dict[str, int]:
        """What the run takes at most: an episode may end earlier."""
        found = {"episodes": self.options["episodes"], "steps_at_most": self.most_steps}
        if not isinstance(self.asking, Scored):
            return found | {"model_calls_at_most": self._all_calls(len(CONDITIONS) * self.asking.most_calls)}
        plan = self.model.plan_scores(self.asking.items(self.first_prompts()))
        calls, tokens = self._all_calls(len(plan.batches)), plan.tokens * self.most_steps
        return found | {"model_calls_at_most": calls, "tokens_at_most": tokens}

    def _all_calls(self, calls_a_step: int) -> int:
        """All calls, with those that word feedback and the summaries at the episodes' ends."""
        words_feedback = self.options["interactive"] and Capability.GENERATE in self.model.capabilities
        summaries = int(self.options["episodes"]) if self.options["summarise"] else 0
        return (calls_a_step + int(words_feedback)) * self.most_steps + summaries

    def first_prompts(self) -> list[Any]:
        """What would be asked at the first step."""
        return Episode(self.ways(0), 1, self.knowledge).prompts()

    def ways(self, seed: int, listen: Listener | None = None) -> Ways:
        options = self.options
        return Ways(
            world=self.world,
            model=self.model,
            elicitor=self.asking,
            view=options["view"],
            instruction=self.instruction,
            keep_own=options["own_grounding"],
            sample_actions=options["act"] == "sample",
            carries=options["carry"],
            real_clock=options["clock"] == "real",
            max_steps=options["max_steps"],
            seed=seed,
            listen=listen,
        )

    def close(self) -> None:
        """Give back what was opened here."""
        self.world.close()
        if self.owned:
            self.model.close()


class Result(NamedTuple):
    """A finished study: the summary, the steps in order without their evidence, and the run folder."""

    summary: dict[str, Any]
    samples: list[Sample]
    run: Run

    @property
    def failed(self) -> bool:
        return any(sample.failed for sample in self.samples)

    _repr_html_ = Shown._repr_html_


def prepare(
    world: PathLike,
    model: str | Model = "smollm2",
    *,
    evidence: str | None = None,
    instruction: str | None = None,
    grounding: PathLike | None = None,
    episodes: int = 1,
    max_steps: int = 20,
    view: str | None = None,
    own_grounding: bool = False,
    carry: bool = False,
    summarise: bool = False,
    act: str = "best",
    clock: str | None = None,
    frames: bool = True,
    top_logprobs: int = 10,
    vocab_size: int | None = None,
    max_tokens: int | None = None,
    temperature: float = 0.0,
    interactive: bool = False,
    **model_options: Any,
) -> Prepared:
    """Open the world, and the model without its weights; refuse in one sentence what cannot be done."""
    _check_numbers(episodes, max_steps, top_logprobs, max_tokens, temperature)
    if vocab_size is not None and vocab_size <= 21:
        raise InputError(f"--vocab-size is how many tokens the model knows, which are more than {vocab_size}")
    check_choice("--act", act, ACTS)
    _check_instruction(instruction)
    place = open_world(world)
    knowledge = shipped_knowledge(place.name) if grounding is None else read_knowledge(os.fspath(grounding))
    _check_no_leak(knowledge, instruction, grounding)
    ((opened, owned),) = open_models([model], model_options)
    if summarise:
        opened.require(Capability.GENERATE, "--summarise")
    asked_for = evidence or usual_evidence(opened)
    seen = _view(view, opened, asked_for)
    asking = elicitor(
        asked_for,
        opened,
        place.actions,
        top_logprobs=top_logprobs,
        vocab_size=vocab_size,
        max_tokens=max_tokens,
        temperature=temperature,
    )
    usual_clock = "world" if asked_for == "scored" and not opened.remote else "real"
    check_choice("--clock", clock or usual_clock, CLOCKS)
    options: dict[str, Any] = {
        "evidence": asked_for,
        "instruction": instruction,
        "grounding": _digest(knowledge),
        "episodes": episodes,
        "max_steps": max_steps,
        "view": seen,
        "own_grounding": own_grounding,
        "carry": carry,
        "summarise": summarise,
        "act": act,
        "clock": clock or usual_clock,
        "frames": frames,
        "interactive": interactive,
    }
    if asked_for != "scored":
        options |= {"max_tokens": max_tokens, "temperature": temperature}
    if asked_for == "logprobs":
        options |= {"top_logprobs": top_logprobs, "vocab_size": vocab_size}
    return Prepared(place, opened, asking, knowledge, instruction, options, owned)


def _check_numbers(
    episodes: int, max_steps: int, top_logprobs: int, max_tokens: int | None, temperature: float
) -> None:
    if not 1 <= episodes <= 9999:
        raise InputError(f"--episodes must be 1 to 9999, not {episodes}")
    if not 1 <= max_steps <= 9999:
        raise InputError(f"--max-steps must be 1 to 9999, not {max_steps}")
    if not 1 <= top_logprobs <= 20:
        raise InputError(f"--top-logprobs must be 1 to 20, not {top_logprobs}")
    if max_tokens is not None and max_tokens < 1:
        raise InputError(f"--max-tokens must be at least 1, not {max_tokens}")
    if not 0.0 <= temperature < 100.0:
        raise InputError(f"--temperature must be 0 or more, not {temperature}")


def _check_instruction(instruction: str | None) -> None:
    if instruction is None:
        return
    if not instruction.strip():
        raise InputError("--instruction is empty: leave it out to have the world's own")
    if instruction != printable(instruction):
        raise InputError("--instruction is no UTF-8, which a model could not read: write it as UTF-8")


def _check_no_leak(knowledge: Sequence[str], instruction: str | None, source: PathLike | None) -> None:
    leaks = [one for one in knowledge if repeats(one, [instruction])]
    if leaks:
        where = "the map's own grounding" if source is None else shown_path(os.fspath(source))
        raise InputError(
            f"{where} holds the instruction ({leaks[0]!r}): it would be in the prompt without language too, so take "
            "that sentence out"
        )


def _view(view: str | None, model: Model, evidence: str) -> str:
    """What the model sees: what was asked for, if it can; otherwise pictures where it is known to have eyes."""
    sees = model.takes_images if evidence == "scored" else model.answers_images
    if view is None:
        # A server may have a model with eyes behind it, or not: it has to be said.
        return "image" if sees and not model.name.startswith("openai:") else "text"
    check_choice("--view", view, VIEWS)
    if view != "text" and not sees:
        raise MissingCapability(
            f"--view {view} needs a model that sees, and {model.name!r} reads text only: --view text"
        )
    return view


def _digest(knowledge: Sequence[str]) -> str | None:
    return f"sha256:{hashlib.sha256(chr(10).join(knowledge).encode()).hexdigest()}" if knowledge else None


# -- carrying out -------------------------------------------------------------------------------------------------


def carry_out(
    prepared: Prepared,
    *,
    out: PathLike,
    seed: int = 0,
    listen: Listener | None = None,
    on_step: OnStep | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> Result:
    """Play what is not played yet, then judge all of it. The same call takes up a stopped run."""
    check_seed(seed)
    options = prepared.options
    doer = engine or LocalEngine()
    if doer.name != LocalEngine.name:
        check_apart(options)
    total = prepared.most_steps
    writer = RunWriter(out, _identity(prepared, seed), total, source=prepared.world.name)
    with writer:
        kept = sorted(writer.samples, key=lambda sample: sample.index)
        job = Player(prepared.ways(seed), prepared.knowledge, options["summarise"], options)
        if writer.manifest.status != "finished":
            doer.load(job)
        else:
            on_step = None
        table = StepTable(writer.path, options["evidence"], kept)
        pages = Pages(writer.path, options["frames"])
        tally = StepTally()
        shown = progress or NoProgress()
        shown.start("trust", total, kept, tally)
        keeper = Keeper(writer, table, pages, on_step, shown, tally)
        try:
            if doer.name == LocalEngine.name:
                _play_here(prepared, prepared.ways(seed, listen), kept, keeper)
            else:
                _play_apart(prepared, job, doer, kept, keeper)
        finally:
            shown.stop()
            table.close()
        samples = sorted(writer.samples, key=lambda sample: sample.index)
        pages.write_replay(samples)
        summary = judge(samples, options, seed=seed)
        writer.finish(summary)
    return Result(summary, samples, Run(out))


def _play_here(prepared: Prepared, ways: Ways, kept: Sequence[Sample], keeper: Keeper) -> None:
    """Episode after episode, every step kept as soon as it is done."""
    options, knowledge, folder = prepared.options, prepared.knowledge, keeper.writer.path
    chains: dict[str, int] = {}
    for number in range(1, options["episodes"] + 1):
        episode = Episode(ways, number, knowledge, chains)
        for sample in _of(number, kept):
            keeper.pages.keep(sample, episode)
            episode.replay(sample)
        while not episode.over:
            keeper.keep(episode.step())
        gained = gained_after(folder, number)
        if gained is None:
            gained = what_is_known(episode, prepared.model if options["summarise"] else None)
            keep_gained(folder, number, gained)
            keeper.writer.keep(gained_name(number))
        keeper.end(number, options["max_steps"] - episode.steps, episode.frame().read())
        knowledge = gained if options["carry"] else knowledge


def _play_apart(prepared: Prepared, job: Player, engine: Engine, kept: Sequence[Sample], keeper: Keeper) -> None:
    """Whole episodes, played by an engine's workers and kept in order."""
    options, folder = prepared.options, keeper.writer.path
    chains = Chains(options["act"] == "sample")
    kept_of = {number: _of(number, kept) for number in range(1, options["episodes"] + 1)}
    turns = {n: Turn(n, tuple(before), keeper.pages.unseen(before)) for n, before in kept_of.items()}
    ended = {
        n for n in turns if keeper.pages.has_end(n) and not turns[n].unseen and gained_after(folder, n) is not None
    }
    played_apart = engine.run(job, (turn for number, turn in turns.items() if number not in ended))
    for number, turn in turns.items():
        if number in ended:
            chains.linked(number, turn.before, [])
            keeper.leave_out(options["max_steps"] - len(turn.before))
            continue
        played = next(played_apart)
        for name, png in played.frames.items():
            keeper.pages.put(name, png)
        for step in chains.linked(number, turn.before, played.steps):
            keeper.keep(step)
        if gained_after(folder, number) is None:
            keep_gained(folder, number, played.gained)
            keeper.writer.keep(gained_name(number))
        keeper.end(number, options["max_steps"] - played.step_count, played.end)
    played_apart.close()


def _of(number: int, samples: Sequence[Sample]) -> list[Sample]:
    return [sample for sample in samples if sample.result["episode"] == number]


def _identity(prepared: Prepared, seed: int) -> Identity:
    model = prepared.model
    return Identity(
        study="trust",
        options=prepared.options,
        model={"name": model.name, **model.fingerprint()},
        data=prepared.world.fingerprint(),
        seed=seed,
    )
