"""One episode, step by step: look, ask in three conditions at the same time, act on the one that was told everything.

An episode is a chain: what is asked at a step depends on every step before. A stopped run is therefore replayed: the
actions on the disk are taken again in a fresh world, without asking anybody, and the next step is asked as it would
have been. The world is checked against the record on the way.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from howsure.errors import RunDamaged
from howsure.evidence import Outcome
from howsure.measures import nats_to_bits, trust
from howsure.models.contract import Model
from howsure.models.images import Picture
from howsure.runs import Sample
from howsure.studies.pairs import seed_of
from howsure.studies.trust.elicit import Elicitor, Reading
from howsure.studies.trust.json_places import printable
from howsure.studies.trust.knowledge import Learned, repeats, sentence_from_feedback, take_up
from howsure.studies.trust.prompts import CONDITIONS, Condition, Prompt, Scene, three_prompts
from howsure.studies.trust.sureness import confidence
from howsure.studies.trust.world import Best, Effect, State, World

NO_ACTION = "No action could be read from your answer, so nothing happened."
WORLD_CLOCK_STARTS = datetime.datetime(2000, 1, 1)


class Told(NamedTuple):
    """What a user says between two steps; `instruction` replaces the present one."""

    feedback: str | None = None
    instruction: str | None = None


Listener = Callable[["Episode"], Told | None]


class Ways(NamedTuple):
    """What is the same in all episodes of a run."""

    world: World
    model: Model
    elicitor: Elicitor
    view: str
    instruction: str | None
    keep_own: bool
    """Whether the model's own `grounding` field becomes knowledge."""
    sample_actions: bool
    carries: bool
    """Whether an episode begins with what was known at the end of the one before."""
    real_clock: bool
    max_steps: int
    seed: int
    listen: Listener | None = None


class Step(NamedTuple):
    """A finished step: its record, and the frame that was seen before acting."""

    sample: Sample
    picture: Picture


class Episode:
    """An episode under way; what it knows can be asked for at any time."""

    def __init__(self, ways: Ways, number: int, knowledge: Sequence[str], chains: dict[str, int] | None = None) -> None:
        """`chains` are the episodes in which questions were first asked in the same order, shared by those of a run."""
        self.ways = ways
        self.number = number
        ways.world.reset(ways.seed + number - 1)
        self.instruction = ways.instruction or ways.world.mission
        self.instructions = [self.instruction]
        """Every one that was given so far: an earlier one must not come back as knowledge."""
        self.left_out = [one for one in knowledge if repeats(one, [self.instruction])]
        self.knowledge = [one for one in knowledge if one not in self.left_out]
        self.notes: str | None = None
        self.last_result: str | None = None
        self.facts: list[str] = []
        self.steps = 0
        self.over = False
        self.last: Sample | None = None
        self._asked: dict[str, int] = {}
        self._chain = ""
        self._chains = {} if chains is None else chains

    def step(self) -> Step:
        """One step, from looking to having acted."""
        learned: list[Learned] = []
        told = Told() if self.ways.listen is None else _said(self.ways.listen(self) or Told())
        if told.instruction is not None:
            self._change_instruction(told.instruction)
        if told.feedback is not None:
            learned += self._hear(told.feedback)
        world, began = self.ways.world, self._now()
        picture, scene = self._look()
        prompts, known = self._prompts(scene), len(self.knowledge)
        readings = dict(zip(CONDITIONS, self.ways.elicitor.ask(list(prompts.values()), self._seed()), strict=True))
        before, best = world.state(), world.best_actions()
        chosen = self._choose(readings[Condition.X_GIVEN_LS])
        effect = None if chosen is None else world.act(chosen)
        if self.ways.keep_own and (said := readings[Condition.X_GIVEN_S].knowledge):
            learned += self._learn(said, "the model, in X|S")
        result = _result(self, began, before, readings, chosen, effect)
        notes, asked = readings[Condition.X_GIVEN_LS].notes, _digest(prompts)
        result |= {
            "knowledge_count": known,
            "told": _given(told),
            "learned": [one.to_dict() for one in learned],
            "left_out": list(self.left_out),
            "notes": notes,
            "asked": asked,
            "answer_form": self.ways.model.answer_form,
            **self._first_asked(asked),
            **_judged(chosen, best, readings[Condition.X_GIVEN_LS]),
        }
        self._go_on(chosen, effect, before, notes)
        sample = _sample(self, result, prompts, readings)
        self.last = sample
        return Step(sample, picture)

    def replay(self, sample: Sample) -> None:
        """Take a recorded step again, without asking."""
        result = sample.result
        told = result["told"]
        if told.get("instruction") is not None:
            self._change_instruction(told["instruction"])
        before = self.ways.world.state()
        if [before.x, before.y, before.direction] != [result["agent_x"], result["agent_y"], result["agent_dir"]]:
            raise RunDamaged(
                f"step {sample.id} was recorded at ({result['agent_x']}, {result['agent_y']}), and the world is at "
                f"({before.x}, {before.y}): the world is not the one of this run, so choose another --out"
            )
        for one in result["learned"]:
            if "refused" not in one:
                self.knowledge.append(one["sentence"])
        self._first_asked(result["asked"])
        chosen = result["action"]
        effect = None if chosen is None else self.ways.world.act(chosen)
        self._go_on(chosen, effect, before, result["notes"])
        self.last = sample

    def prompts(self) -> list[Prompt]:
        """What would be asked now, in the order of the conditions."""
        return list(self._prompts(self._look()[1]).values())

    def told_last(self) -> str:
        """What came of the last action, and of what was said, for a person who watches."""
        if self.last is None or self.last_result is None:
            return f"the instruction is: {self.instruction or 'none'}"
        refused = [one["sentence"] for one in self.last.result["learned"] if "refused" in one]
        return " ".join([self.last_result, *(f"Not kept, since it repeats the instruction: {one}" for one in refused)])

    def frame(self) -> Picture:
        return self.ways.world.picture()

    # -- parts of a step ----------------------------------------------------------------------------------------

    def _look(self) -> tuple[Picture, Scene]:
        world, view = self.ways.world, self.ways.view
        picture = world.picture()
        scene = Scene(
            actions=self.ways.elicitor.actions,
            last_result=self.last_result,
            view=world.text() if view in ("text", "both") else None,
            picture=picture if view in ("image", "both") else None,
        )
        return picture, scene

    def _prompts(self, scene: Scene) -> dict[Condition, Prompt]:
        form = self.ways.elicitor.form
        return three_prompts(scene, form, knowledge=self.knowledge, instruction=self.instruction, notes=self.notes)

    def _choose(self, reading: Reading) -> str | None:
        """The action to take: the one that was chosen, or one drawn from its distribution where that was asked for."""
        if not self.ways.sample_actions or reading.probabilities is None:
            return reading.action
        names, weights = zip(*reading.probabilities.items(), strict=True)
        chances = np.array(weights)
        if chances.sum() <= 0.0:
            return reading.action
        draw = np.random.default_rng([self.ways.seed, self.number, self.steps])
        return str(names[int(draw.choice(len(names), p=chances / chances.sum()))])

    def _seed(self) -> int:
        """What answers are drawn with at this step, the same in all three conditions."""
        return seed_of(self.ways.seed, self.number, self.steps)

    def _first_asked(self, asked: str) -> dict[str, int]:
        """The step of this episode that asked the same first, the episode that first asked all of it up to here, and
        the one that its chain of episodes began with.

        Where the action is drawn by chance, an episode that went as another did is one of its own all the same.
        """
        self._chain = hashlib.sha256(f"{self._chain}{asked}".encode()).hexdigest()
        chains = {} if self.ways.sample_actions else self._chains
        return {
            "first_asked": self._asked.setdefault(asked, self.steps + 1),
            "first_episode": chains.setdefault(self._chain, self.number),
            "chain": 1 if self.ways.carries else self.number,
        }

    def _hear(self, feedback: str) -> list[Learned]:
        """Feedback as knowledge. What repeats the instruction is not worded anew: that would only hide it."""
        if repeats(feedback, [*self.instructions, self.notes]):
            return self._learn(feedback, "feedback, in the user's words", feedback)
        return self._learn(*sentence_from_feedback(self.ways.model, feedback))

    def _learn(self, sentence: str, source: str, whole: str = "") -> list[Learned]:
        found = take_up(sentence, source, self.knowledge, [*self.instructions, self.notes], whole)
        if found is None:
            return []
        if found.refused is None:
            self.knowledge.append(found.sentence)
        return [found]

    def _change_instruction(self, instruction: str) -> None:
        """Knowledge that holds the new instruction would leak it."""
        self.instruction = instruction
        self.instructions.append(instruction)
        leaks = [one for one in self.knowledge if repeats(one, [instruction])]
        self.left_out += leaks
        self.knowledge = [one for one in self.knowledge if one not in leaks]

    def _go_on(self, chosen: str | None, effect: Effect | None, before: State, notes: str | None) -> None:
        self.steps += 1
        self.notes = notes if notes is not None else self.notes
        self.last_result = NO_ACTION if effect is None else f"{chosen}. {effect.words}"
        if effect is not None:
            self._note_fact(effect, before)
            self.over = effect.over
        self.over = self.over or self.steps >= self.ways.max_steps

    def _note_fact(self, effect: Effect, before: State) -> None:
        """What an action met with, for the summary at the end; a plain move tells nothing."""
        if effect.changed and effect.action in ("up", "down", "left", "right"):
            return
        fact = f"At ({before.x}, {before.y}), {effect.action}: {effect.words}"
        if fact not in self.facts:
            self.facts.append(fact)

    def _now(self) -> str:
        if not self.ways.real_clock:
            return (WORLD_CLOCK_STARTS + datetime.timedelta(seconds=self.steps + 1)).isoformat()
        return datetime.datetime.now().isoformat(timespec="seconds")


def step_id(episode: int, step: int) -> str:
    return f"e{episode:04d}-s{step:04d}"


def _digest(prompts: dict[Condition, Prompt]) -> str:
    """Equal where a step was asked word for word as an earlier one."""
    whole = hashlib.sha256()
    for one in prompts.values():
        whole.update(f"{one.text}\0{one.picture and one.picture.sha256}\0".encode("utf-8", errors="replace"))
    return whole.hexdigest()[:16]


def _said(told: Told) -> Told:
    """Blank words are none, and bytes that were no text are no words."""
    return Told(*(printable(words or "").strip() or None for words in told))


def _given(told: Told) -> dict[str, Any]:
    return {name: value for name, value in told._asdict().items() if value is not None}


def _result(
    episode: Episode,
    began: str,
    before: State,
    readings: dict[Condition, Reading],
    chosen: str | None,
    effect: Effect | None,
) -> dict[str, Any]:
    acting = readings[Condition.X_GIVEN_LS]
    nats = [readings[condition].entropy_nats for condition in CONDITIONS]
    probability = None if chosen is None or acting.probabilities is None else acting.probabilities.get(chosen)
    found = trust(*nats)
    return {
        "episode": episode.number,
        "step": episode.steps + 1,
        "timestamp": began,
        "agent_x": before.x,
        "agent_y": before.y,
        "agent_dir": before.direction,
        "carrying": before.carrying,
        "instruction": episode.instruction,
        "action": chosen,
        "action_probability": probability,
        "effect": None if effect is None else effect.words,
        "moved": None if effect is None else effect.changed,
        "reward": None if effect is None else effect.reward,
        "reached": None if effect is None else effect.reached,
        "trust": None if found is None or np.isnan(found) else found,
        "conditions": {condition.value: _kept(readings[condition]) for condition in CONDITIONS},
    }


def _judged(chosen: str | None, best: Best, acting: Reading) -> dict[str, Any]:
    """The action against the shortest way; None where there is no action, or no way is known."""
    return {
        "action_confidence": confidence(chosen, acting.probabilities, best.actions),
        "on_shortest_path": None if chosen is None or best.actions is None else chosen in best.actions,
        "best_actions": None if best.actions is None else sorted(best.actions),
        "shortest_distance": best.distance,
        "path_missing": best.reason,
    }


def _kept(reading: Reading) -> dict[str, Any]:
    """What summaries and tables need of a reading."""
    return {
        "entropy_bits": None if reading.entropy_nats is None else float(nats_to_bits(reading.entropy_nats)),
        "entropy_missing": reading.entropy_missing,
        "action": reading.action,
        "action_missing": reading.action_missing,
        "probabilities": reading.probabilities,
        "other": reading.other,
        **reading.figures,
    }


def _sample(
    episode: Episode, result: dict[str, Any], prompts: dict[Condition, Prompt], readings: dict[Condition, Reading]
) -> Sample:
    """A step whose three entropies are not all there failed, with the first of the reasons."""
    missing = [(c, r) for c, r in readings.items() if r.entropy_nats is None]
    condition, first = missing[0] if missing else (None, None)
    evidence = {
        "prompts": {c.value: [[m.role, m.content] for m in one.messages] for c, one in prompts.items()},
        "answers": {c.value: one.evidence for c, one in readings.items()},
    }
    return Sample(
        step_id(episode.number, episode.steps),
        (episode.number - 1) * episode.ways.max_steps + episode.steps - 1,
        result,
        evidence,
        Outcome(correct=result["on_shortest_path"], reward=result["reward"]),
        reason=None if first is None else first.entropy_missing,
        detail=None if first is None or condition is None else f"{condition.entropy_name}: {_why(first)}",
    )


def _why(reading: Reading) -> str:
    return reading.detail or str(reading.entropy_missing).replace("_", " ")
