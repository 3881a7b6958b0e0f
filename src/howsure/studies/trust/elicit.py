"""Asking a model for its action: what it is shown in each of the three conditions, and three ways to ask.

    condition   knowledge S   instruction L   the model's own notes
    X           no            no              no
    X|S         yes           no              no
    X|L,S       yes           yes             yes

Everything else is the same in all three, to the letter: the rules, the form of the answer, the picture, the text view
and what came of the last action. The notes that a model writes about its task were written because of the instruction,
so they go where the instruction goes and nowhere else. No message is ever empty, which some servers refuse: without an
instruction the same neutral words stand in both conditions. Any number of prompts is asked at the same time.

    scored       every allowed action as the answer, by forward passes: the exact distribution over them
    logprobs     the model writes JSON; the tokens of its action carry their own and their alternatives' probabilities
    verbalized   the model writes the probabilities of the next three steps as JSON, and they are taken at its word
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec
import numpy as np

from howsure.evidence import Distribution
from howsure.measures import entropy_nats, nats_to_bits
from howsure.models.contract import Answer, Capability, Failure, Message, Model, ScoreItem
from howsure.models.images import Picture
from howsure.studies.trust.answers import action_schema, read_action
from howsure.studies.trust.record import ConditionRecord
from howsure.studies.trust.steps import CONDITIONS, Condition
from howsure.studies.trust.verbalized import LABELS, VERBALIZED_SCHEMA, Verbalized, read_verbalized
from howsure.studies.trust.world.words import parse_action

if TYPE_CHECKING:
    from howsure.studies.trust.study import WorldOptions

EVIDENCE = ("scored", "logprobs", "verbalized")
MOST_RETRIES = 3
MOST_REMEMBERED = 256

NEUTRAL = "Instruction: none is given."
NOTHING_YET = "You have not acted yet."

# -- prompts ------------------------------------------------------------------------------------------------------


class Scene(NamedTuple):
    """What is the same in all three conditions of a step."""

    actions: tuple[str, ...]
    last_result: str | None = None
    view: str | None = None
    picture: Picture | None = None


class Prompt(NamedTuple):
    """One question to a model."""

    messages: tuple[Message, ...]

    @property
    def text(self) -> str:
        """All its words."""
        return "\n\n".join(message.content for message in self.messages)

    @property
    def picture(self) -> Picture | None:
        return next((image for message in self.messages for image in message.images), None)


class Form(NamedTuple):
    """How to answer: told in the rules, and asked for once more at the very end."""

    rules: str
    question: str


def prompt(
    scene: Scene,
    form: Form,
    *,
    knowledge: Sequence[str] = (),
    instruction: str | None = None,
    notes: str | None = None,
) -> Prompt:
    """One prompt. What is not given is not in it."""
    system = [_rules(scene), form.rules]
    if knowledge:
        system.append("What is known about this place:\n" + "\n".join(f"- {one}" for one in knowledge))
    if notes:
        system.append(f"Your notes from your last answer: {notes}")
    user = [scene.view] if scene.view else []
    user.append(f"Last action: {scene.last_result or NOTHING_YET}")
    user.append(NEUTRAL if instruction is None else f"Instruction: {instruction}")
    user.append(form.question)
    images = () if scene.picture is None else (scene.picture,)
    return Prompt((Message("system", "\n\n".join(system)), Message("user", "\n\n".join(user), images)))


def three_prompts(
    scene: Scene, form: Form, *, knowledge: Sequence[str], instruction: str | None, notes: str | None
) -> dict[Condition, Prompt]:
    """The same scene in the three conditions."""
    return {
        condition: prompt(
            scene,
            form,
            knowledge=() if condition is Condition.X else knowledge,
            instruction=instruction if condition is Condition.X_GIVEN_LS else None,
            notes=notes if condition is Condition.X_GIVEN_LS else None,
        )
        for condition in CONDITIONS
    }


_MEANINGS = {
    "up": "one cell towards the top",
    "down": "one cell towards the bottom",
    "left": "one cell to the left",
    "right": "one cell to the right",
    "pick up": "take what is in the cell in front of you",
    "drop": "put down what you carry in front of you",
    "toggle": "open or close what is in front of you",
    "done": "say that the task is done",
}


def _rules(scene: Scene) -> str:
    seen = "a picture" if scene.view is None else "a map" if scene.picture is None else "a picture and a map"
    listed = "\n".join(f"- {action}: {_MEANINGS[action]}" for action in scene.actions)
    return (
        f"You steer a robot through a grid world, which you see from above in {seen}. "
        f"Each turn you choose one action:\n{listed}"
    )


# -- readings -----------------------------------------------------------------------------------------------------


class Reading(msgspec.Struct, frozen=True):
    """What one prompt gave. Entropy and action can be missing apart from each other, each with its reason."""

    record: ConditionRecord
    entropy_nats: float | None = None
    detail: str | None = None
    """The particulars of a reason, in words."""
    notes: str | None = None
    """What the model wants to remember about its task."""
    knowledge: str | None = None
    """What the model says about the place."""
    evidence: dict[str, Any] = {}
    """The answer as it came, for the record."""

    @property
    def why(self) -> str:
        """Why there is no entropy, in words."""
        return self.detail or str(self.record.entropy_missing).replace("_", " ")


class Elicitor(Protocol):
    """One way of asking."""

    name: str
    form: Form
    actions: tuple[str, ...]
    """What an answer can name, which need not be all that the world allows."""
    most_calls: int
    """How often one prompt may be asked."""

    def ask(self, prompts: Sequence[Prompt], seed: int = 0) -> list[Reading]:
        """A reading for each prompt; `seed` is what answers are drawn with where they are drawn by chance."""
        ...


def usual_evidence(model: Model) -> str:
    """What is asked for where the user did not say: exact scores where they can be had at no risk."""
    return "scored" if Capability.SCORE in model.capabilities and not model.remote else "logprobs"


def elicitor(options: WorldOptions, model: Model, actions: Sequence[str], vocab_size: int | None = None) -> Elicitor:
    """The way of asking that the options name; raises in one sentence where the model cannot be asked so."""
    evidence = options.evidence
    if evidence == "scored":
        model.require(Capability.SCORE, "--evidence scored")
        return Scored(model, tuple(actions))
    model.require(Capability.GENERATE, f"--evidence {evidence}")
    longest = options.max_tokens or (256 if evidence == "logprobs" else 512)
    how = Writing(model, longest, options.temperature)
    if evidence == "logprobs":
        return ByLogprobs(how, tuple(actions), options.top_logprobs, vocab_size)
    return ByWord(how, tuple(action for action in actions if action in LABELS))


# -- scored -------------------------------------------------------------------------------------------------------


class Scored:
    """Exact probabilities of the allowed actions, all prompts in one batch, equal prompts once."""

    name = "scored"
    most_calls = 1

    def __init__(self, model: Model, actions: tuple[str, ...]) -> None:
        self.model = model
        self.actions = actions
        self.form = Form(
            "Answer with one of these actions and nothing else.",
            f"Which action do you take? Answer with one of: {', '.join(actions)}.",
        )
        self._known: dict[tuple[ScoreItem, ...], dict[ScoreItem, Reading]] = {}

    def ask(self, prompts: Sequence[Prompt], seed: int = 0) -> list[Reading]:
        distinct = tuple(self.items(prompts))
        readings = self._known.get(distinct)
        if readings is None:
            scored = self.model.try_score(distinct)
            readings = {item: self._read(one) for item, one in zip(distinct, scored, strict=True)}
            if not any(isinstance(one, Failure) for one in scored):  # which may pass
                self._remember(distinct, readings)
        return [readings[self._item(prompt)] for prompt in prompts]

    def _remember(self, asked: tuple[ScoreItem, ...], readings: dict[ScoreItem, Reading]) -> None:
        """What was asked together and comes again together, as for a robot in front of a wall, is not run again.

        Only whole batches: the last digits depend on what is run together, and must not depend on what was before.
        """
        if len(self._known) >= MOST_REMEMBERED:
            self._known.pop(next(iter(self._known)))
        self._known[asked] = readings

    def items(self, prompts: Sequence[Prompt]) -> list[ScoreItem]:
        """What is scored for these prompts, together."""
        return list(dict.fromkeys(self._item(prompt) for prompt in prompts))

    def _item(self, prompt: Prompt) -> ScoreItem:
        if self.model.takes_chat:
            bare = tuple(Message(message.role, message.content) for message in prompt.messages)
            return ScoreItem(bare, self.actions, prompt.picture)
        # Without a chat template the text is continued; a space belongs to the word that follows it.
        text = prompt.text + "\n\nAction:"
        return ScoreItem(text, tuple(f" {action}" for action in self.actions), prompt.picture)

    def _read(self, scored: Any) -> Reading:
        if isinstance(scored, Failure):
            return _nothing(scored.reason, scored.detail)
        nats = np.array([-one.nll_nats for one in scored])
        kept = {"log_likelihoods": dict(zip(self.actions, np.maximum(nats, -9999.0).tolist(), strict=True))}
        if np.isneginf(nats).all():
            return _nothing("no_allowed_action", "every allowed action has probability zero", kept)
        spread = Distribution.from_log_likelihoods(self.actions, nats)
        entropy = float(entropy_nats(spread.probabilities))
        record = ConditionRecord(
            entropy_bits=nats_to_bits(entropy),
            action=self.actions[int(np.argmax(spread.probabilities))],
            probabilities=dict(zip(self.actions, spread.probabilities.tolist(), strict=True)),
            other=0.0,
            allowed_mass=min(1.0, float(np.exp(nats).sum())),
            tied=bool((spread.probabilities == spread.probabilities.max()).sum() > 1),
        )
        return Reading(record, entropy, evidence=kept)


def _nothing(reason: str, detail: str, evidence: dict[str, Any] | None = None) -> Reading:
    return Reading(
        ConditionRecord(entropy_missing=reason, action_missing=reason), detail=detail, evidence=evidence or {}
    )


# -- written ------------------------------------------------------------------------------------------------------


class Writing(msgspec.Struct, frozen=True):
    """How answers are generated; the same for all prompts."""

    model: Model
    max_tokens: int
    temperature: float

    def answers(self, prompts: Sequence[Prompt], top: int | None, schema: Mapping[str, Any], seed: int) -> list[Answer]:
        return self.model.generate(
            [list(prompt.messages) for prompt in prompts],
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_logprobs=top,
            seed=seed,
            answer_schema=schema,
        )


class ByLogprobs:
    """The action inside a JSON answer, with what the log-probabilities of its tokens tell."""

    name = "logprobs"
    most_calls = 1

    def __init__(self, how: Writing, actions: tuple[str, ...], top: int, vocab_size: int | None = None) -> None:
        self.how = how
        self.actions = actions
        self.top = top
        self.vocab_size = vocab_size
        self.schema = action_schema(actions)
        self.form = Form(
            "Answer with one JSON object and nothing else, in this form: "
            '{"action": ["<one of the actions>"], "reasoning": "<brief>", "grounding": "<one new fact about the '
            'place, or empty>", "memory": {"task_process": {"status": "<brief>"}, "previous_action": "<brief>"}}',
            f"Which action do you take? Answer in JSON, with one of: {', '.join(actions)}.",
        )

    def ask(self, prompts: Sequence[Prompt], seed: int = 0) -> list[Reading]:
        return [self._read(answer) for answer in self.how.answers(prompts, self.top, self.schema, seed)]

    def _read(self, answer: Answer) -> Reading:
        read = read_action(answer, self.actions, canonical, vocab_size=self.vocab_size)
        spread = read.distribution
        record = ConditionRecord(
            entropy_bits=nats_to_bits(read.first_nats),
            entropy_missing=None if read.first_nats is not None else read.evidence_missing or read.action_missing,
            action=read.action,
            action_missing=read.action_missing,
            probabilities=None if spread is None else dict(zip(spread.labels, spread.probabilities, strict=True)),
            other=None if spread is None else spread.other,
            low_bits=nats_to_bits(read.low_nats),
            high_bits=nats_to_bits(read.high_nats),
            exact_bits=nats_to_bits(read.exact_nats),
            mean_bits=nats_to_bits(read.mean_nats),
            weighted_bits=nats_to_bits(read.weighted_nats),
            decision_bits=nats_to_bits(read.decision_nats),
            action_entropy_bits=nats_to_bits(read.action_entropy_nats),
            unlisted=read.unlisted,
            located=read.first is not None,
        )
        kept = _answered(answer) | {"action": read}
        return Reading(record, read.first_nats, read.detail, read.memory, read.grounding, kept)


class ByWord:
    """The probabilities that the model writes down; an answer that is no JSON is asked for again."""

    name = "verbalized"
    most_calls = 1 + MOST_RETRIES

    def __init__(self, how: Writing, actions: tuple[str, ...]) -> None:
        self.how = how
        self.actions = actions
        self.form = Form(
            "Say how likely each direction is for each of your next three steps. Answer with one JSON object and "
            'nothing else, in this form: {"executability": <0 to 1: how likely it is that this can be carried out>, '
            '"step1": {"north": <probability>, "south": <probability>, "west": <probability>, "east": <probability>}, '
            '"step2": {…the same}, "step3": {…the same}, "reasoning": "<brief>", "grounding": "<one new fact about '
            'the place, or empty>", "memory": {"task_process": {"status": "<brief>"}, "previous_action": "<brief>"}}. '
            "The four probabilities of a step sum to 1; north is up, south is down, west is left, east is right.",
            "How likely is each direction for your next three steps? Answer in JSON.",
        )

    def ask(self, prompts: Sequence[Prompt], seed: int = 0) -> list[Reading]:
        answers = self.how.answers(prompts, None, VERBALIZED_SCHEMA, seed)
        read = [read_verbalized(answer.text) for answer in answers]
        retries = [0] * len(prompts)
        for attempt in range(1, MOST_RETRIES + 1):
            again = [i for i, one in enumerate(read) if one.reason is not None and answers[i].failure is None]
            if not again:
                break
            insisting = [_insisting(prompts[i]) for i in again]
            fresh = self.how.answers(insisting, None, VERBALIZED_SCHEMA, seed + attempt)
            for i, answer in zip(again, fresh, strict=True):
                answers[i], read[i], retries[i] = answer, read_verbalized(answer.text), retries[i] + 1
        return [_by_word(*one) for one in zip(answers, read, retries, strict=True)]


def _insisting(prompt: Prompt) -> Prompt:
    """The same question, with one more sentence: a model that is asked word for word the same may answer the same."""
    *before, last = prompt.messages
    more = last.content + "\n\nYour answer must be the JSON object alone."
    return Prompt((*before, msgspec.structs.replace(last, content=more)))


def _by_word(answer: Answer, read: Verbalized, retries: int) -> Reading:
    first = read.steps[0]
    missing = "no_answer" if answer.failure is not None else read.reason
    lacking = missing or next((step.reason for step in read.steps if step.reason is not None), None)
    steps: dict[str, Any] = {}
    for i, step in enumerate(read.steps, 1):
        steps |= {
            f"step{i}_action": step.action,
            f"step{i}_bits": nats_to_bits(step.entropy_nats),
            f"step{i}_sum": step.raw_sum,
            f"step{i}_probabilities": step.probabilities,
        }
    record = ConditionRecord(
        entropy_bits=nats_to_bits(read.entropy_nats),
        entropy_missing=None if read.entropy_nats is not None else lacking,
        action=first.action,
        action_missing=None if first.action is not None else missing or first.reason,
        probabilities=first.probabilities,
        other=None if first.probabilities is None else 0.0,
        executability=read.executability,
        tied=first.tied,
        **steps,
        retries=retries,
    )
    detail = answer.failure or _what_lacks(read)
    return Reading(record, read.entropy_nats, detail, read.memory, read.grounding, _answered(answer))


def _what_lacks(read: Verbalized) -> str | None:
    if read.reason is not None:
        return f"the answer cannot be read ({read.reason})"
    lacking = [f"step{i} is {step.reason}" for i, step in enumerate(read.steps, 1) if step.reason is not None]
    return ", ".join(lacking) or None


def _answered(answer: Answer) -> dict[str, Any]:
    told = {"text": answer.text, "finish_reason": answer.finish_reason, "failure": answer.failure}
    kept: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
    if answer.retries:
        kept["server_retries"] = answer.retries
    if answer.logprobs is not None:
        kept["logprobs"] = answer.logprobs.to_dict()
    return kept


def canonical(said: str) -> str | None:
    """The label of an action as a model wrote it."""
    parsed = parse_action(said)
    return None if parsed is None else parsed.label
