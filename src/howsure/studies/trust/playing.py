"""Episodes as pieces of work: each is played whole by whoever has the world and the model.

An episode is a chain, so that its steps cannot be shared out; episodes can, unless each begins with what was known at
the end of the one before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from howsure.errors import InputError, MissingCapability, ModelError
from howsure.models.contract import Model
from howsure.runs import Job, Sample
from howsure.studies.trust.knowledge import repeats, summary_of
from howsure.studies.trust.play import Episode, Step, Ways

VERBALIZED = "--evidence verbalized"


class Turn(NamedTuple):
    """An episode to be played, with the steps of it that were played already, and which of these lack their frame."""

    number: int
    before: tuple[Sample, ...] = ()
    unseen: frozenset[str] = frozenset()


class Played(NamedTuple):
    """What came of an episode: its new steps, the frames that were missing, the last frame, and what is known now."""

    steps: list[Step]
    frames: dict[str, bytes]
    end: bytes
    step_count: int
    gained: list[str]


class Player(Job[Turn, Played]):
    """Plays episodes, wherever it is."""

    def __init__(self, ways: Ways, knowledge: Sequence[str], summarise: bool, options: dict[str, Any]) -> None:
        self.ways = ways
        self.knowledge = list(knowledge)
        self.summarise = summarise
        self.options = options

    def __getstate__(self) -> dict[str, Any]:
        """A world travels as its map or name: whoever gets it opens it anew."""
        opened_by = self.ways.world.opened_by
        if opened_by is None:
            raise InputError(f"the world {self.ways.world.name} cannot be sent to workers: give it by its name or file")
        return vars(self) | {"ways": self.ways._replace(world=opened_by)}  # type: ignore[arg-type]

    def __setstate__(self, state: dict[str, Any]) -> None:
        opener, arguments = state["ways"].world
        vars(self).update(state | {"ways": state["ways"]._replace(world=opener(*arguments))})

    def load(self) -> None:
        make_ready(self.ways.model, self.options)

    def __call__(self, piece: Turn) -> Played:
        episode = Episode(self.ways, piece.number, self.knowledge)
        frames = {}
        for sample in piece.before:
            if sample.id in piece.unseen:
                frames[sample.id] = episode.frame().read()
            episode.replay(sample)
        steps = []
        while not episode.over:
            steps.append(episode.step())
        gained = what_is_known(episode, self.ways.model if self.summarise else None)
        return Played(steps, frames, episode.frame().read(), episode.steps, gained)

    @property
    def threads(self) -> int | None:
        return self.ways.model.threads

    def fingerprint(self) -> dict[str, Any]:
        return self.ways.model.fingerprint() | {"world": self.ways.world.fingerprint()}


def make_ready(model: Model, options: dict[str, Any]) -> None:
    """Weights, and the one question whether log-probabilities come at all, before anything is shown as under way."""
    model.load()
    if options["evidence"] != "logprobs":
        return
    try:
        model.check_logprobs(options["top_logprobs"])
    except ModelError as error:
        words = str(error)
        about = isinstance(error, MissingCapability) or "logprob" in words.rpartition("): ")[2].lower()
        if not about:
            raise
        raise MissingCapability(f"{words}; {VERBALIZED} does without them") from error


def what_is_known(episode: Episode, model: Model | None) -> list[str]:
    """What is known at an episode's end; its facts are worded by the model where one is given."""
    facts = episode.facts
    if model is not None and facts:
        facts = summary_of(model, facts) or facts
    new = [fact for fact in facts if not repeats(fact, [*episode.instructions, episode.notes])]
    return list(dict.fromkeys([*episode.knowledge, *new]))


def check_apart(options: dict[str, Any]) -> None:
    """Refuse what makes an episode wait for another, or for a person."""
    if options["carry"]:
        raise InputError(
            "--carry makes each episode wait for the one before, so nothing can be shared out: leave out one "
            "of --carry and --engine ray"
        )
    if options["interactive"]:
        raise InputError("--interactive needs the person at this terminal: leave --engine out")


class Chains:
    """Which episode first asked what another asks: known only to whoever sees all of them, in order."""

    def __init__(self, drawn: bool) -> None:
        self._drawn = drawn
        self._chains: dict[str, int] = {}

    def linked(self, number: int, before: Sequence[Sample], steps: Sequence[Step]) -> list[Step]:
        """The steps of an episode that was played by itself, as they would be in a run that was played in order."""
        chain = ""
        for sample in before:
            chain = self._next(chain, sample, number)[0]
        linked = []
        for step in steps:
            chain, first = self._next(chain, step.sample, number)
            result = step.sample.result | {"first_episode": first}
            linked.append(step._replace(sample=msgspec.structs.replace(step.sample, result=result)))
        return linked

    def _next(self, chain: str, sample: Sample, number: int) -> tuple[str, int]:
        longer = hashlib.sha256(f"{chain}{sample.result['asked']}".encode()).hexdigest()
        return longer, number if self._drawn else self._chains.setdefault(longer, number)
