"""Scores for logs that have none: a model reads the conversation again and says how surprising each turn is to it.

It is that model's surprise, not the writer's own doubt, and every figure made of it says so. The chat template is
applied, each conversation is read once from beginning to end, and one longer than the model's context is read in
windows that overlap. Control words are no speech and are left out; what tools said is read, and not scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from howsure.errors import MissingCapability
from howsure.evidence import TokenLogprobs
from howsure.models.contract import ConversationCost, Failure, Message, Model, Rolling
from howsure.studies.trajectories.turns import (
    CONTROL_ONLY,
    SCRIPTED,
    Draft,
    Problem,
    ReadAgain,
    Trajectory,
    reason_without_logprobs,
    settle,
    without_control_words,
)

UNREAD = "not_read_by_model"
REFUSED = "refused_by_template"


class Conversation(NamedTuple):
    """A trajectory as a model reads it, and the place of the turn that each message is."""

    messages: tuple[Message, ...]
    turns: tuple[int | None, ...]


def needs_proxy(trajectory: Trajectory) -> bool:
    """Whether a log holds no score at all; scores of two models are never mixed within one conversation."""
    return bool(trajectory.turns) and not any(turn.scored_by for turn in trajectory.turns)


def left_alone(trajectories: Sequence[Trajectory], name: str) -> list[str]:
    """What to say where the model does not read all conversations, though it was asked for."""
    scored = sum(any(turn.scored_by == "log" for turn in one.turns) for one in trajectories)
    if not scored:
        return []
    which = "the only run has" if len(trajectories) == 1 else f"{scored:,} of {len(trajectories):,} runs have"
    return [f"{which} log-probabilities in the log, and {name} does not read there: no run mixes scores of two models"]


def require_conversations(model: Model) -> None:
    if not model.takes_conversations:
        raise MissingCapability(
            f"--score-with needs a local chat model that reads whole conversations, and {model.name!r} does not; "
            "take smollm2, or hf:<a chat model with a template>"
        )


def conversation_of(trajectory: Trajectory, *, greeted: bool = True) -> Conversation:
    """Everything that was said, in order, without what is no speech; and without the scripted greeting if so asked."""
    messages, turns = [], []
    for said in trajectory.said:
        text = without_control_words(said.text)
        if text and (greeted or said.turn is None or trajectory.turns[said.turn - 1].reason != SCRIPTED):
            messages.append(Message(said.role, text))
            turns.append(None if said.turn is None else said.turn - 1)
    return Conversation(tuple(messages), tuple(turns))


def conversations(
    trajectories: Sequence[Trajectory], model: Model, rolling: Rolling
) -> list[tuple[Conversation, ConversationCost | Failure]]:
    """Each trajectory as the model can read it, and what that takes.

    Some templates refuse a conversation that the agent begins. Where it is only the scripted greeting that makes it so,
    it is left out: nobody's doubt is in it.
    """
    whole = [conversation_of(one) for one in trajectories]
    taken = model.conversation_cost([one.messages for one in whole], rolling)
    refused = [i for i, cost in enumerate(taken) if isinstance(cost, Failure) and cost.reason == REFUSED]
    shorter = [conversation_of(trajectories[i], greeted=False) for i in refused]
    again = model.conversation_cost([one.messages for one in shorter], rolling) if refused else []
    pairs = list(zip(whole, taken, strict=True))
    for i, conversation, cost in zip(refused, shorter, again, strict=True):
        pairs[i] = (conversation, cost)
    return pairs


def score_with(
    trajectories: Sequence[Trajectory], model: Model, rolling: Rolling, *, with_tokens: bool = False
) -> None:
    """Score the turns of conversations that have no scores; a pure function of the list, whatever else was read.

    What went wrong stands at the turns, and `problems_of` tells it.
    """
    chosen = conversations(trajectories, model, rolling)
    read = model.read_conversations([conversation.messages for conversation, _ in chosen], rolling)
    for trajectory, (conversation, cost), evidence in zip(trajectories, chosen, read, strict=True):
        if isinstance(evidence, Failure):
            leave_unread(trajectory, evidence)
        else:
            trajectory.read_again = ReadAgain(model=model.name, **({} if isinstance(cost, Failure) else cost._asdict()))
            _scored(trajectory, conversation, evidence, model.name, with_tokens)


def problems_of(trajectory: Trajectory) -> list[Problem]:
    """One sentence for a conversation that no model could read."""
    unread = next((turn for turn in trajectory.turns if turn.reason == UNREAD), None)
    if unread is None:
        return []
    sentence = f"{trajectory.source}: simulation {trajectory.id} cannot be read by the model: {unread.detail}"
    return [Problem(trajectory.source, UNREAD, sentence)]


def leave_unread(trajectory: Trajectory, failure: Failure) -> None:
    """Every turn that somebody wrote says why no model read it."""
    for turn in trajectory.turns:
        if turn.reason != SCRIPTED:
            turn.reason, turn.detail = UNREAD, failure.detail


def _scored(
    trajectory: Trajectory,
    conversation: Conversation,
    read: Sequence[TokenLogprobs],
    name: str,
    with_tokens: bool,
) -> None:
    evidence = {turn: one for turn, one in zip(conversation.turns, read, strict=True) if turn is not None}
    drafts = []
    for place, turn in enumerate(trajectory.turns):
        if turn.reason == SCRIPTED:
            continue
        if place not in evidence:
            turn.reason = CONTROL_ONLY if turn.control else turn.reason
            continue
        turn.scored_by, turn.reason, turn.detail = name, reason_without_logprobs(turn, scripted=False), None
        tokens = evidence[place].tokens if with_tokens else None
        drafts.append(Draft(turn, evidence[place].logprobs, tokens, f"turn {turn.number} as {name} reads it"))
    settle(drafts, trajectory.source)
    for draft in drafts:
        if draft.turn.uncertainty_nats is None:
            draft.turn.scored_by = None
