"""Trust: how much do grounding and language each reduce a model's uncertainty about its next action?

Question   a model acts in a grid world; which part of what it knows about its action comes from grounding alone?
World      JSON maps of emoji, and any MiniGrid or BabyAI environment; shown as a picture, as text, or both
Asks       the same scene three times at once: X (nothing), X|S (grounding), X|L,S (grounding and instruction)
Measure    T = (H(X) − H(X|S)) / (H(X) − H(X|L,S)), entropies of the action in bits, by one of three kinds of evidence
Comes out  every step with its entropies, T over episodes and the run with its doubt, the actions against the shortest
           path; steps.csv, frames, a replay
"""

from __future__ import annotations

import os
from typing import Any

from howsure.models.contract import Model
from howsure.runs import Engine, Progress, engine_at_hand, placed
from howsure.studies.trust.keeping import OnStep
from howsure.studies.trust.play import Listener, Told
from howsure.studies.trust.work import Prepared, Result, carry_out, prepare

__all__ = ["Prepared", "Result", "Told", "carry_out", "prepare", "trust"]

PathLike = str | os.PathLike[str]


def trust(
    world: PathLike,
    model: str | Model = "smollm2",
    *,
    out: PathLike,
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
    seed: int = 0,
    listen: Listener | None = None,
    on_step: OnStep | None = None,
    progress: Progress | None = None,
    engine: str | Engine | None = None,
    **model_options: Any,
) -> Result:
    """Let a model act in a world, asked in three conditions at every step, and write a run folder.

    `world` is a map's file or name, or an environment's id. `listen` is called before each step with the episode and
    gives a `Told`: feedback, which becomes knowledge, or a new instruction. `on_step` hears of every finished step. The
    same call takes up a stopped run. `engine` is who plays the episodes: this process, or `"ray"` or a `RayEngine`.
    `model_options` (see `ModelOptions`) are for a model given by name.
    """
    prepared = prepare(
        world,
        model,
        evidence=evidence,
        instruction=instruction,
        grounding=grounding,
        episodes=episodes,
        max_steps=max_steps,
        view=view,
        own_grounding=own_grounding,
        carry=carry,
        summarise=summarise,
        act=act,
        clock=clock,
        frames=frames,
        top_logprobs=top_logprobs,
        vocab_size=vocab_size,
        max_tokens=max_tokens,
        temperature=temperature,
        interactive=listen is not None,
        **(placed(engine, model_options) if isinstance(model, str) else model_options),
    )
    try:
        with engine_at_hand(engine) as doer:
            return carry_out(
                prepared, out=out, seed=seed, listen=listen, on_step=on_step, progress=progress, engine=doer
            )
    finally:
        prepared.close()
