"""One episode, step by step: look, ask in three conditions at the same time, act on the one that was told everything.

An episode is a chain: what is asked at a step depends on every step before. A stopped run is therefore replayed: the
actions on the disk are taken again in a fresh world, without asking anybody, and the next step is asked as it would
have been. The world is checked against the record on the way.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from howsure.errors import InputError, RunDamaged
from howsure.evidence import Outcome
from howsure.measures import trust
from howsure.models.contract import Model
from howsure.models.images import Picture
from howsure.runs import Sample
from howsure.studies.study import seed_of
from howsure.studies.trust.elicit import Elicitor, Prompt, Reading, Scene, three_prompts
from howsure.studies.trust.estimates import confidence
from howsure.studies.trust.json_places import printable
from howsure.studies.trust.knowledge import Learned, repeats, sentence_from_feedback, summary_of, take_up
from howsure.studies.trust.record import Conditions, TrustRecord, UserInput
from howsure.studies.trust.steps import CONDITIONS, Condition
from howsure.studies.trust.world import Effect, State, World

if TYPE_CHECKING:
    from howsure.studies.trust.study import TrustOptions

NO_ACTION = "No action could be read from your answer, so nothing happened."
WORLD_CLOCK_STARTS = datetime.datetime(2000, 1, 1)


class EpisodeConfig(NamedTuple):
    """What is the same in all episodes of a run, wherever they are played."""

    world: World
    model: Model
    elicitor: Elicitor
    options: TrustOptions

    def __reduce__(self) -> tuple[Callable[..., EpisodeConfig], tuple[Any, ...]]:
        """A world travels as its map or name: whoever gets it opens it anew."""
        if self.world.opened_by is None:
            raise InputError(f"the world {self.world.name} cannot be sent to workers: give it by its name or file")
        return _elsewhere, (*self.world.opened_by, *self[1:])


def _elsewhere(open_world: Callable[..., World], where: tuple[Any, ...], *others: Any) -> EpisodeConfig:
    return EpisodeConfig(open_world(*where), *others)


class Step(NamedTuple):
    """A finished step: its record, and the frame that was seen before acting."""

    sample: Sample[TrustRecord]
    picture: Picture


class EpisodeEnd(NamedTuple):
    """What is known at the end of an episode, the last frame, and how many steps it took."""

    knowledge: list[str]
    frame: Picture
    steps: int


class Episode:
    """An episode under way; what it knows can be asked for at any time."""

    def __init__(self, config: EpisodeConfig, number: int, knowledge: Sequence[str]) -> None:
        self.config = config
        self.number = number
        config.world.reset(config.options.seed + number - 1)
        self.instruction = config.options.instruction or config.world.mission
        self.instructions = [self.instruction]
        """Every one that was given so far: an earlier one must not come back as knowledge."""
        self.left_out = [one for one in knowledge if repeats(one, [self.instruction])]
        self.knowledge = [one for one in knowledge if one not in self.left_out]
        self.notes: str | None = None
        self.last_result: str | None = None
        self.facts: list[str] = []
        self.steps = 0
        self.over = False
        self.last: TrustRecord | None = None
        self._asked: dict[str, int] = {}

    def step(self) -> Step:
        """One step, from looking to having acted."""
        world, options = self.config.world, self.config.options
        told = UserInput() if options.listen is None else _clean(options.listen(self))
        if told.instruction is not None:
            self._change_instruction(told.instruction)
        learned = [] if told.feedback is None else self._hear(told.feedback)
        began = self._now()
        picture, scene = self._look()
        prompts, known = self._prompts(scene), len(self.knowledge)
        asked = _digest(prompts)
        seed = seed_of(options.seed, self.number, self.steps)  # the same in all three conditions
        readings = dict(zip(CONDITIONS, self.config.elicitor.ask(list(prompts.values()), seed), strict=True))
        acting = readings[Condition.X_GIVEN_LS]
        before, best = world.state(), world.best_actions()
        chosen, chances = self._choose(acting), acting.record.probabilities
        effect = None if chosen is None else world.act(chosen)
        if options.own_grounding and (said := readings[Condition.X_GIVEN_S].knowledge):
            learned += self._learn(said, "the model, in X|S")
        ratio = trust(*(reading.entropy_nats for reading in readings.values()))
        record = TrustRecord(
            episode=self.number,
            step=self.steps + 1,
            timestamp=began,
            agent_x=before.x,
            agent_y=before.y,
            agent_dir=before.direction,
            carrying=before.carrying,
            instruction=self.instruction,
            action=chosen,
            action_probability=None if chosen is None or chances is None else chances.get(chosen),
            effect=None if effect is None else effect.words,
            moved=None if effect is None else effect.changed,
            reward=None if effect is None else effect.reward,
            reached=None if effect is None else effect.reached,
            trust=None if ratio is None or np.isnan(ratio) else ratio,
            conditions=Conditions(*(reading.record for reading in readings.values())),
            knowledge_count=known,
            told=told,
            learned=learned,
            left_out=list(self.left_out),
            notes=acting.notes,
            asked=asked,
            answer_form=self.config.model.answer_form,
            first_asked=self._asked.setdefault(asked, self.steps + 1),
            first_episode=self.number,
            chain=1 if options.carry else self.number,
            action_confidence=confidence(chosen, chances, best.actions),
            on_shortest_path=None if chosen is None or best.actions is None else chosen in best.actions,
            best_actions=None if best.actions is None else sorted(best.actions),
            shortest_distance=best.distance,
            path_missing=best.reason,
        )
        self._go_on(record, effect, before)
        return Step(self._sample(record, prompts, readings), picture)

    def replay(self, record: TrustRecord) -> None:
        """Take a recorded step again, without asking."""
        if record.told.instruction is not None:
            self._change_instruction(record.told.instruction)
        before = self.config.world.state()
        if (before.x, before.y, before.direction) != (record.agent_x, record.agent_y, record.agent_dir):
            raise RunDamaged(
                f"step {step_id(record.episode, record.step)} was recorded at ({record.agent_x}, {record.agent_y}), "
                f"and the world is at ({before.x}, {before.y}): the world is not the one of this run, so choose "
                "another --out"
            )
        self.knowledge += [one.sentence for one in record.learned if one.refused is None]
        self._asked.setdefault(record.asked, self.steps + 1)
        effect = None if record.action is None else self.config.world.act(record.action)
        self._go_on(record, effect, before)

    def prompts(self) -> list[Prompt]:
        """What would be asked now, in the order of the conditions."""
        return list(self._prompts(self._look()[1]).values())

    def told_last(self) -> str:
        """What came of the last action, and of what was said, for a person who watches."""
        if self.last is None or self.last_result is None:
            return f"the instruction is: {self.instruction or 'none'}"
        refused = [one.sentence for one in self.last.learned if one.refused is not None]
        return " ".join([self.last_result, *(f"Not kept, since it repeats the instruction: {one}" for one in refused)])

    def frame(self) -> Picture:
        return self.config.world.picture()

    def end(self) -> EpisodeEnd:
        """What an episode that is over leaves; its facts are worded by the model where that was asked for."""
        facts = self.facts
        if self.config.options.summarise and facts:
            facts = summary_of(self.config.model, facts) or facts
        new = [fact for fact in facts if not repeats(fact, [*self.instructions, self.notes])]
        return EpisodeEnd(list(dict.fromkeys([*self.knowledge, *new])), self.frame(), self.steps)

    # -- parts of a step ----------------------------------------------------------------------------------------

    def _look(self) -> tuple[Picture, Scene]:
        world, view = self.config.world, self.config.options.view
        picture = world.picture()
        scene = Scene(
            actions=self.config.elicitor.actions,
            last_result=self.last_result,
            view=world.text() if view in ("text", "both") else None,
            picture=picture if view in ("image", "both") else None,
        )
        return picture, scene

    def _prompts(self, scene: Scene) -> dict[Condition, Prompt]:
        form = self.config.elicitor.form
        return three_prompts(scene, form, knowledge=self.knowledge, instruction=self.instruction, notes=self.notes)

    def _choose(self, reading: Reading) -> str | None:
        """The action to take: the one that was chosen, or one drawn from its distribution where that was asked for."""
        likeliest, chances = reading.record.action, reading.record.probabilities
        if self.config.options.act != "sample" or chances is None:
            return likeliest
        weights = np.array(list(chances.values()))
        if weights.sum() <= 0.0:
            return likeliest
        draw = np.random.default_rng([self.config.options.seed, self.number, self.steps])
        return list(chances)[int(draw.choice(len(chances), p=weights / weights.sum()))]

    def _hear(self, feedback: str) -> list[Learned]:
        """Feedback as knowledge. What repeats the instruction is not worded anew: that would only hide it."""
        if repeats(feedback, [*self.instructions, self.notes]):
            return self._learn(feedback, "feedback, in the user's words", feedback)
        return self._learn(*sentence_from_feedback(self.config.model, feedback))

    def _learn(self, sentence: str, source: str, whole: str = "") -> list[Learned]:
        learned = take_up(sentence, source, self.knowledge, [*self.instructions, self.notes], whole)
        if learned is None:
            return []
        if learned.refused is None:
            self.knowledge.append(learned.sentence)
        return [learned]

    def _change_instruction(self, instruction: str) -> None:
        """Knowledge that holds the new instruction would leak it."""
        self.instruction = instruction
        self.instructions.append(instruction)
        leaks = [one for one in self.knowledge if repeats(one, [instruction])]
        self.left_out += leaks
        self.knowledge = [one for one in self.knowledge if one not in leaks]

    def _go_on(self, record: TrustRecord, effect: Effect | None, before: State) -> None:
        self.steps += 1
        self.last = record
        self.notes = record.notes if record.notes is not None else self.notes
        self.last_result = NO_ACTION if effect is None else f"{record.action}. {effect.words}"
        if effect is not None:
            self._note_fact(effect, before)
            self.over = effect.over
        self.over = self.over or self.steps >= self.config.options.max_steps

    def _note_fact(self, effect: Effect, before: State) -> None:
        """What an action met with, for the summary at the end; a plain move tells nothing."""
        if effect.changed and effect.action in ("up", "down", "left", "right"):
            return
        fact = f"At ({before.x}, {before.y}), {effect.action}: {effect.words}"
        if fact not in self.facts:
            self.facts.append(fact)

    def _now(self) -> str:
        if self.config.options.clock == "real":
            return datetime.datetime.now().isoformat(timespec="seconds")
        return (WORLD_CLOCK_STARTS + datetime.timedelta(seconds=self.steps + 1)).isoformat()

    def _sample(
        self, record: TrustRecord, prompts: Mapping[Condition, Prompt], readings: Mapping[Condition, Reading]
    ) -> Sample[TrustRecord]:
        """A step whose three entropies are not all there failed, with the first of the reasons."""
        missing = next(((c, one) for c, one in readings.items() if one.entropy_nats is None), None)
        evidence = {
            "prompts": {c.value: [[m.role, m.content] for m in one.messages] for c, one in prompts.items()},
            "answers": {c.value: one.evidence for c, one in readings.items()},
        }
        return Sample(
            step_id(record.episode, record.step),
            (record.episode - 1) * self.config.options.max_steps + record.step - 1,
            record,
            evidence,
            Outcome(correct=record.on_shortest_path, reward=record.reward),
            reason=None if missing is None else missing[1].record.entropy_missing,
            detail=None if missing is None else f"{missing[0].entropy_name}: {missing[1].why}",
        )


Listener = Callable[[Episode], UserInput | None]
"""Asked before each step what the user says."""


def step_id(episode: int, step: int) -> str:
    return f"e{episode:04d}-s{step:04d}"


def _digest(prompts: Mapping[Condition, Prompt]) -> str:
    """Equal where a step was asked word for word as an earlier one."""
    whole = hashlib.sha256()
    for one in prompts.values():
        whole.update(f"{one.text}\0{one.picture and one.picture.sha256}\0".encode("utf-8", errors="replace"))
    return whole.hexdigest()[:16]


def _clean(told: UserInput | None) -> UserInput:
    """Blank words are none, and bytes that were no text are no words."""
    said = UserInput() if told is None else told
    return UserInput(*(printable(words or "").strip() or None for words in (said.feedback, said.instruction)))
