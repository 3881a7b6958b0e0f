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
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from howsure.errors import InputError
from howsure.measures import LEAST_GAIN_BITS, coherent_null, coherent_trust, nats_to_bits
from howsure.models.contract import Model
from howsure.runs import (
    Engine,
    Identity,
    NoProgress,
    Progress,
    Run,
    RunWriter,
    Sample,
    engine_at_hand,
    placed,
    work_through,
)
from howsure.runs.files import to_json
from howsure.studies.model_job import ModelJob
from howsure.studies.pairs import check_seed, seed_of
from howsure.studies.summary import Coverage, Figure, summary
from howsure.studies.trust.elicit import Elicitor, Reading
from howsure.studies.trust.knowledge import read_knowledge, read_sets, repeats
from howsure.studies.trust.playing import make_ready
from howsure.studies.trust.prompts import CONDITIONS, Prompt, Scene, prompt
from howsure.studies.trust.steps import ENTROPIES
from howsure.studies.trust.work import Prepared, Result, prepare
from howsure.studies.trust.world import World

PathLike = str | os.PathLike[str]


LEAST_WAYS = 20
"""Ways to arrange the pairs below which even the most extreme one is no rarer than 1 in 20."""

ASKED_WITH = ("evidence", "view", "max_tokens", "temperature", "top_logprobs")
"""The options of `prepare` that an answer depends on; the others are about episodes."""


class Asking(NamedTuple):
    """The sets that every pair is taken from, and how many states of the world they are asked in."""

    instructions: list[str]
    groundings: list[list[str]]
    states: int

    def digest(self) -> str:
        return "sha256:" + hashlib.sha256(to_json([self.instructions, self.groundings])).hexdigest()


def read_asking(instructions: PathLike, groundings: PathLike, states: int) -> Asking:
    """Instructions, one a line, and groundings, one a block of lines; a single one of either tells nothing."""
    told, known = read_knowledge(os.fspath(instructions)), read_sets(os.fspath(groundings))
    for count, what, path in ((len(told), "instruction", instructions), (len(known), "grounding", groundings)):
        if count < 2:
            raise InputError(
                f"{path} holds {count} {what}{'' if count == 1 else 's'}, and a mixture takes at least two"
            )
    if not 1 <= states <= 9999:
        raise InputError(f"--states must be 1 to 9999, not {states}")
    for sentence in (one for block in known for one in block):
        if repeats(sentence, told):
            raise InputError(f"{groundings} holds an instruction of {instructions} ({sentence!r}): take it out")
    return Asking(told, known, states)


def coherent(
    world: PathLike,
    model: str | Model = "smollm2",
    *,
    instructions: PathLike,
    groundings: PathLike,
    states: int = 5,
    out: PathLike,
    seed: int = 0,
    progress: Progress | None = None,
    engine: str | Engine | None = None,
    **options: Any,
) -> Result:
    """Ask for every pair of instruction and grounding in some states of a world, and write a run folder.

    The states lie on the shortest way from the start, or on a walk by chance where that is not known. `options` as for
    `howsure.trust`.
    """
    asking = read_asking(instructions, groundings, states)
    prepared = prepare(world, model, **(placed(engine, options) if isinstance(model, str) else options))
    try:
        with engine_at_hand(engine) as doer:
            return carry_out(prepared, asking, out=out, seed=seed, progress=progress, engine=doer)
    finally:
        prepared.close()


def carry_out(
    prepared: Prepared,
    asking: Asking,
    *,
    out: PathLike,
    seed: int = 0,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> Result:
    check_seed(seed)
    options = {name: prepared.options[name] for name in ASKED_WITH if name in prepared.options}
    identity = Identity(
        study="trust coherent",
        options=options | {"states": asking.states, "sets": asking.digest()},
        model={"name": prepared.model.name, **prepared.model.fingerprint()},
        data=prepared.world.fingerprint(),
        seed=seed,
    )
    scenes = walk(prepared, asking.states, seed)
    ids = [f"state-{i:04d}" for i in range(1, len(scenes) + 1)]
    writer = RunWriter(out, identity, len(ids), source=prepared.world.name)
    with writer:
        work_through(
            writer,
            ids,
            [(i,) for i in range(len(ids))],
            Asker(prepared.asking, prepared.model, prepared.options, asking, seed),
            progress or NoProgress(),
            "trust coherent",
            piece=lambda batch: Place(ids[batch[0]], batch[0], scenes[batch[0]]),
            engine=engine,
        )
        samples = sorted(writer.samples, key=lambda sample: sample.index)
        found = judge(samples, asking, seed=seed)
        writer.finish(found)
    return Result(found, samples, Run(out))


# -- states -------------------------------------------------------------------------------------------------------


class Visited(NamedTuple):
    """A state of the world, and what a model is shown of it."""

    x: int
    y: int
    scene: Scene


def walk(prepared: Prepared, states: int, seed: int) -> list[Visited]:
    """Different states, from the start along a shortest way; fewer where the way is shorter."""
    world, view = prepared.world, prepared.options["view"]
    world.reset(seed)
    chance = np.random.default_rng(seed)
    found: dict[Any, Visited] = {}
    for _ in range(50 * states):
        state = world.state()
        picture = world.picture() if view in ("image", "both") else None
        scene = Scene(prepared.asking.actions, None, world.text() if view in ("text", "both") else None, picture)
        found.setdefault((state.x, state.y, state.carrying), Visited(state.x, state.y, scene))
        if len(found) == states or world.act(_next_action(world, chance)).over:
            break
    return list(found.values())


def _next_action(world: World, chance: np.random.Generator) -> str:
    best = world.best_actions().actions
    if best:
        return min(best)
    return str(world.actions[int(chance.integers(len(world.actions)))])


# -- asking -------------------------------------------------------------------------------------------------------


def _pairs(asking: Asking) -> list[tuple[int, int]]:
    return [(i, j) for i in range(len(asking.instructions)) for j in range(len(asking.groundings))]


class Place(NamedTuple):
    """A state that is to be asked about, under its sample's name."""

    id: str
    number: int
    visited: Visited


class Asker(ModelJob[Place, list[Sample]]):
    """Asks for all pairs in a state, wherever it is."""

    def __init__(self, elicitor: Elicitor, model: Model, options: dict[str, Any], asking: Asking, seed: int) -> None:
        super().__init__(model)
        self.elicitor, self.options, self.asking, self.seed = elicitor, options, asking, seed

    def load(self) -> None:
        make_ready(self.model, self.options)

    def __call__(self, piece: Place) -> list[Sample]:
        prompts = _prompts(self.elicitor, self.asking, piece.visited.scene)
        readings = self.elicitor.ask(prompts, seed_of(self.seed))
        return [_sample(piece.id, piece.number, piece.visited, readings, self.asking)]

    def given_up(self, piece: Place, why: str) -> list[Sample]:
        seen = piece.visited
        result = {"agent_x": seen.x, "agent_y": seen.y, "actions": list(seen.scene.actions)}
        return [Sample(piece.id, piece.number, result, reason="worker_lost", detail=why)]


def _prompts(elicitor: Elicitor, asking: Asking, scene: Scene) -> list[Prompt]:
    form = elicitor.form
    return [
        prompt(scene, form, knowledge=asking.groundings[j], instruction=asking.instructions[i])
        for i, j in _pairs(asking)
    ]


def cost(prepared: Prepared, asking: Asking, seed: int) -> dict[str, int]:
    """What it will take."""
    scenes = walk(prepared, asking.states, seed)
    return {"states": len(scenes), "prompts": len(scenes) * len(_pairs(asking))}


def _sample(name: str, index: int, visited: Visited, readings: list[Reading], asking: Asking) -> Sample:
    """One state: the whole table p(x | l, s), and trust where no pair of it is missing."""
    result: dict[str, Any] = {"agent_x": visited.x, "agent_y": visited.y, "actions": list(visited.scene.actions)}
    evidence = {"answers": [one.evidence for one in readings]}
    rows = [_row(one) for one in readings]
    missing = [(pair, one) for pair, one, row in zip(_pairs(asking), readings, rows, strict=True) if row is None]
    if missing:
        (i, j), first = missing[0]
        reason = first.entropy_missing or first.action_missing or "no_distribution"
        where = f"instruction {i + 1} with grounding {j + 1}: {first.detail or reason}"
        detail = f"{len(missing)} of {len(readings)} pairs gave no distribution; {where}"
        return Sample(name, index, result, evidence, reason=reason, detail=detail)
    shape = (len(asking.instructions), len(asking.groundings), -1)
    table = np.array(rows).reshape(shape)
    found = coherent_trust(table)
    result |= {
        "p": table.tolist(),
        "entropy_H_X": nats_to_bits(found.h_x_nats),
        "entropy_H_X_given_S": nats_to_bits(found.h_x_given_s_nats),
        "entropy_H_X_given_LS": nats_to_bits(found.h_x_given_ls_nats),
        "information_S_bits": nats_to_bits(found.information_s_nats),
        "information_LS_bits": nats_to_bits(found.information_sl_nats),
        "trust_T": found.trust if nats_to_bits(found.information_sl_nats) >= LEAST_GAIN_BITS else None,
    }
    return Sample(name, index, result, evidence)


def _row(reading: Reading) -> list[float] | None:
    """The actions' probabilities, and last what lies outside of them."""
    if reading.probabilities is None or reading.other is None:
        return None
    return [*reading.probabilities.values(), reading.other]


# -- judging ------------------------------------------------------------------------------------------------------


def judge(samples: Sequence[Sample], asking: Asking, *, seed: int) -> dict[str, Any]:
    """The summary over the states that have every pair, each standing for itself."""
    states = [sample.result for sample in samples if not sample.failed]
    by_s, by_both = (_mean(states, f"information_{name}_bits") for name in ("S", "LS"))
    found = coherent_null([state["p"] for state in states], seed=seed) if states else None
    null = None if found is None else asdict(found)
    reason = _reason(by_both)
    value = None if by_s is None or by_both is None or reason is not None else by_s / by_both
    figures = [
        Figure("coherent trust T", value, "", note=_of_trust(value, reason, null, len(states))),
        Figure("I(X;S)", by_s, "bits", note=_of_states(len(states))),
        Figure("I(X;S,L)", by_both, "bits", note=_of_states(len(states))),
    ]
    return summary(
        "trust coherent",
        Coverage.of(samples),
        figures,
        list(_notes(samples, asking, value, reason, null)),
        mean_entropy_bits={
            name: {"value": _mean(states, f"entropy_{condition.column}")}
            for name, condition in zip(ENTROPIES, CONDITIONS, strict=True)
        },
        information_bits={"s": by_s, "ls": by_both},
        trust={"value": value, "reason": reason, "floor_bits": LEAST_GAIN_BITS, "null": null},
        states={"count": len(states), "of": len(samples)},
        instructions=len(asking.instructions),
        groundings=len(asking.groundings),
    )


def _mean(states: Sequence[dict[str, Any]], name: str) -> float | None:
    return sum(state[name] for state in states) / len(states) if states else None


def _reason(by_both: float | None) -> str | None:
    """Why there is no T."""
    if by_both is None:
        return "no state has an answer for every pair"
    if by_both < LEAST_GAIN_BITS:
        small = f"{by_both:.2g} bits is below the floor of {LEAST_GAIN_BITS} bits"
        return f"I(X;S,L) of {small}: too small to have shares"
    return None


def _of_states(states: int) -> str:
    return "of this state" if states == 1 else f"of these {states} states"


def _of_trust(value: float | None, reason: str | None, null: dict[str, Any] | None, states: int) -> str:
    if value is None or null is None:
        return f"not identified: {reason}"
    alone = f"{null['mean']:.3f} on average, {null['high']:.3f} or less in 19 of 20"
    above = "wording alone gives" if _stands_out(value, null) else "not above what wording alone gives:"
    return f"{_of_states(states)}; {above} {alone}"


def _stands_out(value: float, null: dict[str, Any]) -> bool:
    return bool(value > null["high"] + 1e-9)


def _ways(asking: Asking) -> int:
    """How many ways there are to put the pairs into columns of one grounding each: so many T can tell apart."""
    told, known = len(asking.instructions), len(asking.groundings)
    return (
        math.comb(told * known, told)
        * math.prod(math.comb(told * i, told) for i in range(1, known))
        // (math.factorial(known))
    )


def _notes(
    samples: Sequence[Sample], asking: Asking, value: float | None, reason: str | None, null: dict[str, Any] | None
) -> Iterator[str]:
    pairs = f"{len(asking.instructions)} instructions × {len(asking.groundings)} groundings"
    yield f"{pairs}, all pairs alike; the states lie on one walk and hang together, so that T has no interval"
    if reason is not None:
        yield f"coherent trust T is not identified: {reason}"
    if value is not None and null is not None:
        yield (
            f"were only the wording of a prompt to matter, and not which instruction and grounding it holds, T would "
            f"be {null['mean']:.3f} on average and {null['high']:.3f} or less in 19 of 20; "
            f"{null['share_at_least']:.1%} reach the T found ({null['arrangements']:,} arrangements of the pairs)"
        )
    if value is not None and (ways := _ways(asking)) < LEAST_WAYS:
        yield (
            f"{pairs} can be arranged in {ways} ways only, so that no T could stand out from wording noise: "
            "it takes 2 × 4, 3 × 3, or 4 × 2 or more"
        )
    if len(samples) < asking.states:
        yield f"{asking.states} states were asked for, and the way from the start has {len(samples)}"
