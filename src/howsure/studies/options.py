"""Options of what is no study: training, export and the theorem. Light, for the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal, NamedTuple

from howsure.options import Opt, Options
from howsure.runs import Run

PathLike = str | os.PathLike[str]
RunLike = Run | PathLike


@dataclass(frozen=True)
class TrainOptions(Options):
    """What an n-gram model is trained on, and how."""

    texts: Annotated[
        PathLike | Sequence[PathLike] | None,
        Opt("Files, folders, JSON lines with text, or - for standard input; one sentence per line.", argument=True),
    ]
    out: Annotated[PathLike, Opt("The ARPA file to write; compressed if it ends in .gz.", path="local")]
    _: KW_ONLY
    order: Annotated[int, Opt("Longest n-gram, in words.")] = 3
    smoothing: Annotated[str, Opt("modified-kneser-ney, kneser-ney, witten-bell, add-k or mle.")] = (
        "modified-kneser-ney"
    )
    k: Annotated[float, Opt("What add-k adds to every count.")] = 1.0
    discount_fallback: Annotated[
        bool,
        Opt("Where Kneser-Ney discounts cannot be estimated, take 0.5, 1, 1.5 (plain: 0.75) instead of an error."),
    ] = False
    skip_bad: Annotated[bool, Opt("Skip texts that cannot be read, and count them.")] = False


@dataclass(frozen=True)
class ExportOptions(Options):
    """Which runs become tables, and where."""

    runs: Annotated[
        RunLike | Sequence[RunLike],
        Opt("Run folders, or a folder of run folders; also unfinished runs.", argument=True, path="any"),
    ]
    out: Annotated[
        PathLike | None,
        Opt(
            "A name that ends in .parquet: one file with the samples of all runs. Any other: a folder, with one file "
            "per run. Default: samples.parquet in each run folder.",
            path="any",
        ),
    ] = None
    _: KW_ONLY
    evidence: Annotated[bool, Opt("Include tokens, probabilities and answers, the bulk of a run.")] = True


SHORTEST_POWER = 4
"""Texts are measured from 2 to this power on."""


class Learner(NamedTuple):
    """A model to be learned: its order, from how many words, and what is added to each count."""

    name: str
    order: Literal[0, 1]
    training_count: int
    add_k: float


LEARNERS = (
    Learner("order 0, 500 words", 0, 500, 0.5),
    Learner("order 1, 50 words", 1, 50, 0.5),
    Learner("order 1, 500 words", 1, 500, 0.5),
)
"""One model that cannot see the word before, two that can; the first of these has seen too little text."""


@dataclass(frozen=True, kw_only=True)
class TheoremOptions(Options):
    """How many texts of the small language, how long, and which models learn it."""

    seed: Annotated[int, Opt("Random seed.", least=0)] = 0
    longest: Annotated[int, Opt("Words of the longest text.", least=1 << SHORTEST_POWER, most=1 << 24)] = 1 << 18
    paths: Annotated[int, Opt("How many texts make the band.", least=2)] = 32
    learners: Sequence[Learner] = LEARNERS
