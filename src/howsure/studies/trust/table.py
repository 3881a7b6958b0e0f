"""steps.csv: a line a step, written as the steps come and read again by `howsure trust analyse`.

What is missing is an empty field. The four columns of the three entropies (bits) and of trust come last; the columns
before them that are not shared by all kinds of evidence are those of the kind that was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from howsure.measures import trust
from howsure.runs import Sample
from howsure.runs.files import csv_lines, storage_errors, write_atomic
from howsure.studies.trust.prompts import CONDITIONS, Condition

STEPS = "steps.csv"

SHARED = (
    "step",
    "timestamp",
    "agent_x",
    "agent_y",
    "agent_dir",
    "episode",
    "carrying",
    "action",
    "effect",
    "reward",
    "reached",
    "action_probability",
    "action_confidence",
    "on_shortest_path",
    "shortest_distance",
    "first_asked",
    "first_episode",
    "chain",
    "grounded",
    "instructed",
    "missing_entropies",
)
LAST = (*(f"entropy_{condition.column}" for condition in CONDITIONS), "trust_T")

FIGURES: dict[str, dict[str, str]] = {
    "scored": {"allowed_mass": "allowed_mass"},
    "logprobs": {
        "entropy_low": "low_bits",
        "entropy_high": "high_bits",
        "entropy_exact": "exact_bits",
        "unlisted": "unlisted",
        "entropy_mean": "mean_bits",
        "entropy_weighted": "weighted_bits",
        "entropy_decision": "decision_bits",
        "entropy_action": "action_entropy_bits",
    },
    "verbalized": {
        "executability": "executability",
        **{f"step{i}_action": f"step{i}_action" for i in (1, 2, 3)},
        **{f"entropy_step{i}": f"step{i}_bits" for i in (1, 2, 3)},
        **{f"sum_step{i}": f"step{i}_sum" for i in (1, 2, 3)},
    },
}
"""For each kind of evidence: a column, once for each condition, and the figure that it holds."""


def columns(evidence: str) -> list[str]:
    """All columns of the table, in order."""
    own = [f"{name}_{condition.column}" for name in FIGURES[evidence] for condition in CONDITIONS]
    return [*SHARED, *own, *(["trust_T_action"] if evidence == "logprobs" else []), *LAST]


def row(sample: Sample, evidence: str) -> dict[str, Any]:
    """A step as a line; None where something is missing."""
    result = sample.result
    found: dict[str, Any] = {name: result.get(name) for name in SHARED}
    found["carrying"] = result["carrying"] or "nothing"
    found |= {"grounded": int(result["knowledge_count"] > 0), "instructed": int(result["instruction"] is not None)}
    found["missing_entropies"] = sum(_bits(result, condition) is None for condition in CONDITIONS)
    found |= {name: None if found[name] is None else int(found[name]) for name in ("reached", "on_shortest_path")}
    for condition in CONDITIONS:
        of = result["conditions"][condition.value]
        found |= {f"{name}_{condition.column}": of.get(key) for name, key in FIGURES[evidence].items()}
        found[f"entropy_{condition.column}"] = _bits(result, condition)
    if evidence == "logprobs":
        named = [result["conditions"][c.value].get("action_entropy_bits") for c in CONDITIONS]
        found["trust_T_action"] = _number(trust(*named))
    return found | {"trust_T": result["trust"]}


def _number(value: float | None) -> float | None:
    return None if value is None or value != value else value


def _bits(result: dict[str, Any], condition: Condition) -> float | None:
    found: float | None = result["conditions"][condition.value]["entropy_bits"]
    return found


class StepTable:
    """The table on the disk: whole up to the last step, whenever one looks."""

    def __init__(self, folder: Path, evidence: str, kept: Sequence[Sample]) -> None:
        self.path = folder / STEPS
        self._evidence = evidence
        self._columns = columns(evidence)
        head = csv_lines([dict(zip(self._columns, self._columns, strict=True))], self._columns)
        write_atomic(self.path, head + csv_lines([row(sample, evidence) for sample in kept], self._columns))
        with storage_errors(self.path):
            self._file = self.path.open("ab", buffering=0)

    def append(self, sample: Sample) -> None:
        # samples.jsonl is what a power cut must not harm; this table is written anew from it when a run is taken up.
        with storage_errors(self.path):
            self._file.write(csv_lines([row(sample, self._evidence)], self._columns))

    def close(self) -> None:
        self._file.close()
