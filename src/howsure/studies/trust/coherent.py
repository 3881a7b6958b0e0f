"""Coherent trust: one joint distribution over instructions, groundings and actions, instead of three prompts.

The three conditions of a step are three different prompts, and nothing makes their entropies those of one joint
distribution: T may leave [0, 1]. Here the model is only ever asked with an instruction l and a grounding s, for every
pair of a given set; p(x|s) and p(x) are mixtures of what it said. Then H(X) ≥ H(X|S) ≥ H(X|L,S) holds by itself, and
T = I(X;S) / I(X;S,L) lies in [0, 1].

The states lie on one walk and hang together, so that T is a figure of these states, without an interval. Beside it
stands what the wording of prompts alone gives for so many instructions and groundings, which is far above zero.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from howsure.errors import InputError
from howsure.measures import LEAST_GAIN_BITS, CoherentNull, coherent_null, coherent_trust, nats_to_bits
from howsure.models.contract import Model
from howsure.models.images import Picture
from howsure.options import Opt
from howsure.runs import Engine, Sample
from howsure.runs.files import to_json
from howsure.runs.run import Batch, PathLike, Plan
from howsure.studies.study import batch_of, python_function, seed_of
from howsure.studies.summary import Coverage, Figure, Summary
from howsure.studies.trust.elicit import Elicitor, Reading, Scene, elicitor, prompt
from howsure.studies.trust.judge import mean
from howsure.studies.trust.knowledge import read_knowledge, read_sets, repeats
from howsure.studies.trust.record import CoherentEvidence, CoherentRecord
from howsure.studies.trust.steps import ENTROPIES, ENTROPY_COLUMNS
from howsure.studies.trust.study import WorldOptions, WorldStudy, asked_with, settled
from howsure.studies.trust.world import World, open_world
from howsure.types import Fields

LEAST_WAYS = 20
"""Ways to arrange the pairs below which even the most extreme one is no rarer than 1 in 20."""


@dataclass(frozen=True, kw_only=True)
class CoherentOptions(WorldOptions):
    """Which pairs are asked for, and in how many states."""

    instructions: Annotated[PathLike, Opt("Instructions l, one per line.", path="any", identity="no")]
    groundings: Annotated[
        PathLike,
        Opt(
            "Groundings s: blocks of lines with an empty line between; `-` alone is an empty one.",
            path="any",
            identity="no",
        ),
    ]
    states: Annotated[
        int, Opt("States of the world to ask in, along a shortest way.", least=1, most=9999, identity="no")
    ] = 5


class StateMean(Fields):
    """Over the states."""

    value: float | None


class InformationBits(Fields):
    """I(X;S) and I(X;S,L), the mean over the states."""

    s: float | None
    ls: float | None


class Null(Fields):
    """T where neither instruction nor grounding matters, and answers differ by the wording of a prompt alone."""

    mean: float
    high: float
    share_at_least: float
    arrangements: int


class CoherentTrust(Fields):
    value: float | None
    reason: str | None
    """Why there is none."""
    floor_bits: float
    null: Null | None


class States(Fields):
    """Those that have an answer for every pair, of all."""

    count: int
    of: int


class CoherentSummary(Summary, kw_only=True):
    """Over the states that have every pair, each standing for itself."""

    mean_entropy_bits: dict[str, StateMean]
    information_bits: InformationBits
    trust: CoherentTrust
    states: States
    instructions: int
    groundings: int


class Sets(NamedTuple):
    """What every pair is taken from."""

    instructions: list[str]
    groundings: list[list[str]]

    def pairs(self) -> list[tuple[int, int]]:
        return [(i, j) for i in range(len(self.instructions)) for j in range(len(self.groundings))]

    def digest(self) -> str:
        return "sha256:" + hashlib.sha256(to_json([self.instructions, self.groundings])).hexdigest()


class Place(NamedTuple):
    """A world, and what is asked in it."""

    world: World
    sets: Sets

    def identity(self) -> dict[str, Any]:
        return self.world.fingerprint()

    def picture(self, index: int) -> Picture | None:
        return None


class Visited(NamedTuple):
    """A state of the world, and what a model is shown of it."""

    id: str
    x: int
    y: int
    scene: Scene


class PairsConfig(NamedTuple):
    """What is the same in all states, wherever they are asked about."""

    elicitor: Elicitor
    sets: Sets
    options: CoherentOptions


class CoherentStudy(WorldStudy[CoherentOptions]):
    """Trust from one joint distribution: T = I(X;S) / I(X;S,L), which lies in [0, 1].

    The model is asked with every pair of an instruction and a grounding; p(x|s)
    and p(x) are mixtures of its answers. Beside T stands what the wording of the
    prompts alone would give. The states lie on the shortest way from the start,
    or on a random walk where that is not known.

    Question   the same as `howsure trust`, without three different prompts: how much of I(X;S,L) is I(X;S)?
    Data       a world, instructions and groundings
    Asks       in each state every pair of an instruction and a grounding
    Measure    p(x|s) and p(x) by mixing what was said; T = I(X;S) / I(X;S,L) over these states, without an interval
    Comes out  T beside what the wording of prompts alone gives, and the table p(x | l, s) of every state

    Example: howsure trust coherent home --instructions l.txt --groundings s.txt
    """

    name, options, record, summary = "trust coherent", CoherentOptions, CoherentRecord, CoherentSummary
    evidence = CoherentEvidence

    def read(self, options: CoherentOptions, engine: Engine) -> Place:
        return Place(open_world(options.world), read_pairs(options.instructions, options.groundings))

    def plan(self, items: Place, model: Model, options: CoherentOptions) -> Plan[CoherentOptions]:
        options = settled(options, model)
        asks = elicitor(options, model, items.world.actions)
        states = walk(items.world, asks.actions, options)
        cost = {"states": len(states), "prompts": len(states) * len(items.sets.pairs())}
        asked = {"evidence": options.evidence, "view": options.view, **asked_with(options)}
        return Plan(
            [batch_of(states, (i,)) for i in range(len(states))],
            options,
            len(states),
            PairsConfig(asks, items.sets, options.for_workers()),
            cost=lambda: cost,
            more_identity={**asked, "states": options.states, "sets": items.sets.digest()},
        )

    def ask(self, model: Model, batch: Batch, how: PairsConfig) -> list[Sample[CoherentRecord]]:
        (state,), (index,) = batch.items, batch.indices
        told, known = how.sets
        prompts = [
            prompt(state.scene, how.elicitor.form, knowledge=known[j], instruction=told[i]) for i, j in how.sets.pairs()
        ]
        readings = how.elicitor.ask(prompts, seed_of(how.options.seed))
        return [_sample(state, index, readings, how.sets)]

    def about(self, item: Visited) -> CoherentRecord:
        return CoherentRecord(agent_x=item.x, agent_y=item.y, actions=list(item.scene.actions))

    def judge(
        self, samples: Sequence[Sample[CoherentRecord]], options: CoherentOptions, items: Place
    ) -> CoherentSummary:
        return judge(samples, items.sets, asked_states=options.states, seed=options.seed)


COHERENT = CoherentStudy()
coherent = python_function(CoherentOptions, COHERENT)


def read_pairs(instructions: PathLike, groundings: PathLike) -> Sets:
    """Instructions, one per line, and groundings, one per block of lines; a single one of either tells nothing."""
    told, known = read_knowledge(os.fspath(instructions)), read_sets(os.fspath(groundings))
    for count, what, path in ((len(told), "instruction", instructions), (len(known), "grounding", groundings)):
        if count < 2:
            raise InputError(
                f"{path} holds {count} {what}{'' if count == 1 else 's'}, and a mixture takes at least two"
            )
    for sentence in (one for block in known for one in block):
        if repeats(sentence, told):
            raise InputError(f"{groundings} holds an instruction of {instructions} ({sentence!r}): take it out")
    return Sets(told, known)


def walk(world: World, actions: tuple[str, ...], options: CoherentOptions) -> list[Visited]:
    """Different states, from the start along a shortest way; fewer where the way is shorter."""
    world.reset(options.seed)
    chance = np.random.default_rng(options.seed)
    visited: dict[Any, Visited] = {}
    for _ in range(50 * options.states):
        state = world.state()
        picture = world.picture() if options.view in ("image", "both") else None
        scene = Scene(actions, None, world.text() if options.view in ("text", "both") else None, picture)
        name = f"state-{len(visited) + 1:04d}"
        visited.setdefault((state.x, state.y, state.carrying), Visited(name, state.x, state.y, scene))
        best = world.best_actions().actions
        action = min(best) if best else str(world.actions[int(chance.integers(len(world.actions)))])
        if len(visited) == options.states or world.act(action).over:
            break
    return list(visited.values())


# -- asking -------------------------------------------------------------------------------------------------------


def _sample(state: Visited, index: int, readings: list[Reading], sets: Sets) -> Sample[CoherentRecord]:
    """One state: the whole table p(x | l, s), and trust where no pair of it is missing."""
    record, evidence = COHERENT.about(state), {"answers": [one.evidence for one in readings]}
    rows = [_row(one) for one in readings]
    missing = [(pair, one) for pair, one, row in zip(sets.pairs(), readings, rows, strict=True) if row is None]
    if missing:
        (i, j), first = missing[0]
        reason = first.record.entropy_missing or first.record.action_missing or "no_distribution"
        where = f"instruction {i + 1} with grounding {j + 1}: {first.detail or reason}"
        detail = f"{len(missing)} of {len(readings)} pairs gave no distribution; {where}"
        return Sample(state.id, index, record, evidence, reason=reason, detail=detail)
    table = np.array(rows).reshape((len(sets.instructions), len(sets.groundings), -1))
    joint = coherent_trust(table)
    record.p = table.tolist()
    record.entropy_h_x = nats_to_bits(joint.h_x_nats)
    record.entropy_h_x_given_s = nats_to_bits(joint.h_x_given_s_nats)
    record.entropy_h_x_given_ls = nats_to_bits(joint.h_x_given_ls_nats)
    record.information_s_bits = nats_to_bits(joint.information_s_nats)
    record.information_ls_bits = nats_to_bits(joint.information_sl_nats)
    record.trust_t = joint.trust if record.information_ls_bits >= LEAST_GAIN_BITS else None
    return Sample(state.id, index, record, evidence)


def _row(reading: Reading) -> list[float] | None:
    """The actions' probabilities, and last what lies outside of them."""
    shares, other = reading.record.probabilities, reading.record.other
    return None if shares is None or other is None else [*shares.values(), other]


# -- judging ------------------------------------------------------------------------------------------------------


def judge(samples: Sequence[Sample[CoherentRecord]], sets: Sets, *, asked_states: int, seed: int) -> CoherentSummary:
    states = [sample.result for sample in samples if not sample.failed]
    by_s = mean([state.information_s_bits for state in states])
    by_both = mean([state.information_ls_bits for state in states])
    tables = [state.p for state in states if state.p is not None]
    null = coherent_null(tables, seed=seed) if tables else None
    reason = None
    if by_both is None:
        reason = "no state has an answer for every pair"
    elif by_both < LEAST_GAIN_BITS:
        small = f"{by_both:.2g} bits is below the floor of {LEAST_GAIN_BITS} bits"
        reason = f"I(X;S,L) of {small}: too small to have shares"
    value = None if by_s is None or by_both is None or reason is not None else by_s / by_both
    return CoherentSummary(
        study="trust coherent",
        coverage=Coverage.of(samples),
        headline=[
            Figure(
                "coherent trust T",
                value,
                "",
                note=_of_trust(value, reason, null, len(states)),
                meaning="the share of what grounding and language tell that grounding tells alone; between 0 and 1",
            ),
            Figure(
                "I(X;S)",
                by_s,
                "bits",
                note=_of_states(len(states)),
                meaning="what the place alone tells about the action",
            ),
            Figure(
                "I(X;S,L)",
                by_both,
                "bits",
                note=_of_states(len(states)),
                meaning="what place and instruction together tell about the action",
            ),
        ],
        notes=list(_notes(len(samples), asked_states, sets, value, reason, null)),
        mean_entropy_bits={
            name: StateMean(mean([state[column] for state in states]))
            for name, column in zip(ENTROPIES, ENTROPY_COLUMNS, strict=True)
        },
        information_bits=InformationBits(by_s, by_both),
        trust=CoherentTrust(value, reason, LEAST_GAIN_BITS, None if null is None else Null(**asdict(null))),
        states=States(len(states), len(samples)),
        instructions=len(sets.instructions),
        groundings=len(sets.groundings),
    )


def _of_states(states: int) -> str:
    return "of this state" if states == 1 else f"of these {states} states"


def _of_trust(value: float | None, reason: str | None, null: CoherentNull | None, states: int) -> str:
    if value is None or null is None:
        return f"not identified: {reason}"
    alone = f"{null.mean:.3f} on average, {null.high:.3f} or less in 19 of 20"
    above = "wording alone gives" if value > null.high + 1e-9 else "not above what wording alone gives:"
    return f"{_of_states(states)}; {above} {alone}"


def _ways(sets: Sets) -> int:
    """How many ways there are to put the pairs into columns of one grounding each: so many T can tell apart."""
    told, known = len(sets.instructions), len(sets.groundings)
    return (
        math.comb(told * known, told)
        * math.prod(math.comb(told * i, told) for i in range(1, known))
        // (math.factorial(known))
    )


def _notes(
    states: int, asked_states: int, sets: Sets, value: float | None, reason: str | None, null: CoherentNull | None
) -> Iterator[str]:
    pairs = f"{len(sets.instructions)} instructions × {len(sets.groundings)} groundings"
    yield f"{pairs}, all pairs alike; the states lie on one walk and are not independent, so that T has no interval"
    if reason is not None:
        yield f"coherent trust T is not identified: {reason}"
    if value is not None and null is not None:
        yield (
            f"were only the wording of a prompt to matter, and not which instruction and grounding it holds, T would "
            f"be {null.mean:.3f} on average and {null.high:.3f} or less in 19 of 20; "
            f"{null.share_at_least:.1%} reach the T found ({null.arrangements:,} arrangements of the pairs)"
        )
    if value is not None and (ways := _ways(sets)) < LEAST_WAYS:
        yield (
            f"{pairs} can be arranged in {ways} ways only, so that no T could stand out from wording noise: "
            "it takes 2 × 4, 3 × 3, or 4 × 2 or more"
        )
    if states < asked_states:
        yield f"{asked_states} states were asked for, and the way from the start has {states}"
