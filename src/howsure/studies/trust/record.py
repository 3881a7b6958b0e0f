"""What a sample of trust holds: a line of samples.jsonl, a row in Parquet, a row in the viewer."""

from __future__ import annotations

import msgspec

from howsure.evidence.types import TokenRecord
from howsure.studies.trust.answers import ActionReading
from howsure.studies.trust.knowledge import Learned
from howsure.studies.trust.steps import CONDITIONS
from howsure.types import Fields

CONDITION_NAMES = {condition.name.lower(): condition.value for condition in CONDITIONS}
"""As JSON has them, by attribute."""


class UserInput(Fields, omit_defaults=True):
    """What a user says between two steps; `instruction` replaces the present one."""

    feedback: str | None = None
    instruction: str | None = None


class ConditionRecord(Fields, kw_only=True):
    """What one of the three answers of a step gave. Fields of other kinds of evidence are None."""

    entropy_bits: float | None = None
    entropy_missing: str | None = None
    action: str | None = None
    action_missing: str | None = None
    probabilities: dict[str, float] | None = None
    """Of the allowed actions; None where the evidence does not tell."""
    other: float | None = None
    """The probability of what is no allowed action."""
    allowed_mass: float | None = None
    """Scored: the probability of all allowed actions together."""
    executability: float | None = None
    """Verbalized, as are the three steps: how likely the model finds it that its plan can be carried out."""
    tied: bool | None = None
    """Whether the action is the first of several with the same probability."""
    low_bits: float | None = None
    """By log-probabilities, as all down to `located`: bounds of the entropy, which is that of the listed tokens."""
    high_bits: float | None = None
    exact_bits: float | None = None
    mean_bits: float | None = None
    weighted_bits: float | None = None
    decision_bits: float | None = None
    action_entropy_bits: float | None = None
    unlisted: float | None = None
    located: bool | None = None
    step1_action: str | None = None
    step1_bits: float | None = None
    step1_sum: float | None = None
    step1_probabilities: dict[str, float] | None = None
    step2_action: str | None = None
    step2_bits: float | None = None
    step2_sum: float | None = None
    step2_probabilities: dict[str, float] | None = None
    step3_action: str | None = None
    step3_bits: float | None = None
    step3_sum: float | None = None
    step3_probabilities: dict[str, float] | None = None
    retries: int | None = None
    """Verbalized: how often it was asked again for JSON."""


class Conditions(Fields, rename=CONDITION_NAMES):
    """The three answers of a step."""

    x: ConditionRecord
    x_given_s: ConditionRecord
    x_given_ls: ConditionRecord

    def answers(self) -> tuple[ConditionRecord, ConditionRecord, ConditionRecord]:
        """In the order of `CONDITIONS`."""
        return self.x, self.x_given_s, self.x_given_ls


class TrustRecord(Fields, kw_only=True):
    """A step: where it began, the three answers, and what became of the action of the one that was told everything."""

    episode: int
    step: int
    timestamp: str | None = None
    agent_x: int | None = None
    agent_y: int | None = None
    agent_dir: str | None = None
    carrying: str | None = None
    instruction: str | None = None
    action: str | None = None
    action_probability: float | None = None
    effect: str | None = None
    moved: bool | None = None
    """Whether the action had its effect."""
    reward: float | None = None
    reached: bool | None = None
    trust: float | None = None
    conditions: Conditions
    knowledge_count: int = 0
    """Sentences that were known when the model was asked."""
    told: UserInput = msgspec.field(default_factory=UserInput)
    learned: list[Learned] = msgspec.field(default_factory=list)
    left_out: list[str] = msgspec.field(default_factory=list)
    """Sentences of the grounding that hold an instruction of the episode."""
    notes: str | None = None
    asked: str = ""
    """Equal where a step was asked word for word as another."""
    answer_form: str | None = None
    first_asked: int | None = None
    """The step of this episode that asked the same first."""
    first_episode: int | None = None
    """The episode that first asked all that this one had asked up to here. Where the action is drawn by chance, an
    episode that went as another did is one of its own all the same."""
    chain: int | None = None
    """The episode that its chain of episodes began with, of which each goes on from what was known before."""
    action_confidence: float | None = None
    on_shortest_path: bool | None = None
    best_actions: list[str] | None = None
    shortest_distance: int | None = None
    path_missing: str | None = None


class AnswerEvidence(Fields, kw_only=True, omit_defaults=True):
    """An answer as it came."""

    text: str | None = None
    finish_reason: str | None = None
    failure: str | None = None
    server_retries: int | None = None
    logprobs: TokenRecord | None = None
    action: ActionReading | None = None
    log_likelihoods: dict[str, float] | None = None
    """Scored: of each allowed action."""


class PromptsEvidence(Fields, rename=CONDITION_NAMES):
    """The messages of each condition, as role and text."""

    x: list[list[str]] | None = None
    x_given_s: list[list[str]] | None = None
    x_given_ls: list[list[str]] | None = None


class AnswersEvidence(Fields, rename=CONDITION_NAMES):
    x: AnswerEvidence | None = None
    x_given_s: AnswerEvidence | None = None
    x_given_ls: AnswerEvidence | None = None


class TrustEvidence(Fields):
    prompts: PromptsEvidence | None = None
    answers: AnswersEvidence | None = None


class CoherentRecord(
    Fields,
    kw_only=True,
    rename={
        "entropy_h_x": "entropy_H_X",
        "entropy_h_x_given_s": "entropy_H_X_given_S",
        "entropy_h_x_given_ls": "entropy_H_X_given_LS",
        "information_s_bits": "information_S_bits",
        "information_ls_bits": "information_LS_bits",
        "trust_t": "trust_T",
    },
):
    """A state of the world: the table p(x | l, s), and trust where no pair of it is missing."""

    agent_x: int | None = None
    agent_y: int | None = None
    actions: list[str] = msgspec.field(default_factory=list)
    p: list[list[list[float]]] | None = None
    """By instruction and grounding the probabilities of the actions, and last what lies outside of them."""
    entropy_h_x: float | None = None
    entropy_h_x_given_s: float | None = None
    entropy_h_x_given_ls: float | None = None
    information_s_bits: float | None = None
    information_ls_bits: float | None = None
    trust_t: float | None = None


class CoherentEvidence(Fields):
    answers: list[AnswerEvidence] | None = None
