"""Samples as lines of samples.jsonl: as they are written, and as Python's own `json` would write them.

A sample of mcq with four choices and their tokens. The other way is what the first edition did: the struct as
dictionaries, and those by `json.dumps`, which refuses NaN as ours does.
"""

from __future__ import annotations

import json

import msgspec
import numpy as np

from benchmarks.harness import Case
from howsure.evidence import Outcome, TokenLogprobs
from howsure.runs import Sample
from howsure.runs.reading import encoded
from howsure.studies.mcq.record import McqRecord

SAMPLES = 2_000


def cases() -> list[Case]:
    samples = [_sample(i) for i in range(SAMPLES)]
    assert [json.loads(line) for line in _ours(samples)] == [json.loads(line) for line in _plainly(samples)]
    contenders = {"encoded": lambda: _ours(samples), "json.dumps": lambda: _plainly(samples)}
    return [Case(f"{SAMPLES:,} samples of mcq as lines", contenders, {})]


def _ours(samples: list[Sample]) -> list[bytes]:
    return [encoded(sample) for sample in samples]


def _plainly(samples: list[Sample]) -> list[bytes]:
    return [
        json.dumps(msgspec.to_builtins(sample), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        for sample in samples
    ]


def _sample(index: int) -> Sample[McqRecord]:
    rng = np.random.default_rng(index)
    choices = [f"choice {letter} of question {index}, in some words" for letter in "abcd"]
    tokens = [TokenLogprobs(tuple(choice.split()), -rng.exponential(size=len(choice.split()))) for choice in choices]
    values = [-float(one.nll_nats) for one in tokens]
    record = McqRecord(
        question=f"What is asked in question {index}, which has some words of its own?",
        choices=choices,
        answer_index=index % 4,
        predicted_index=int(np.argmax(values)),
        log_likelihoods=values,
        correct=bool(np.argmax(values) == index % 4),
        margin=float(np.ptp(values)),
        tie=False,
        confidence=0.5,
        entropy_nats=1.0,
        unconditional_log_likelihoods=values,
        token_counts=[len(one) for one in tokens],
        byte_counts=[len(choice) for choice in choices],
        straddled=False,
    )
    return Sample(f"q{index}", index, record, {"choices": [one.to_dict() for one in tokens]}, Outcome(correct=True))
