"""What each study's samples hold, as one sample with everything in it: the columns that all its exports share.

A run whose samples fill none of a column still has it, in its type, so that the files of many runs can be read as one.
Dictionaries whose keys are data are `Keyed`, and become one column of keys and values.
"""

from __future__ import annotations

from typing import Any, Final

from howsure.runs.export import Keyed, Shape, shape_of
from howsure.studies.grounding.items import LABELS
from howsure.studies.grounding.judging.columns import KINDS

_TEXT, _INT, _FLOAT, _BOOL = "", 0, 0.5, True

_TOP: Final = {"starts": [_INT], "tokens": [_TEXT], "logprobs": [_FLOAT], "bytes": [_TEXT]}
_TOKENS: Final = {
    "tokens": [_TEXT],
    "logprobs": [_FLOAT],
    "bytes": [_TEXT],
    "top": _TOP,
    "entropies_nats": [_FLOAT],
    "prefix_chars": _INT,
}
"""`TokenLogprobs`; the alternatives of token i are entries starts[i] to starts[i + 1] of `top`."""

_MCQ: Final[dict[str, Any]] = {
    "result": {
        "question": _TEXT,
        "choices": [_TEXT],
        "answer_index": _INT,
        "group": _TEXT,
        "cluster": _TEXT,
        "image_path": _TEXT,
        "image_sha256": _TEXT,
        "predicted_index": _INT,
        "log_likelihoods": [_FLOAT],
        "correct": _BOOL,
        "margin": _FLOAT,
        "tie": _BOOL,
        "confidence": _FLOAT,
        "entropy_nats": _FLOAT,
        "predicted_index_per_token": _INT,
        "predicted_index_per_byte": _INT,
        "predicted_index_pmi": _INT,
        "unconditional_log_likelihoods": [_FLOAT],
        "pmi_missing": _TEXT,
        "token_counts": [_INT],
        "byte_counts": [_INT],
        "straddled": _BOOL,
    },
    "evidence": {"choices": [_TOKENS]},
}

_BLOCKS: Final = {
    "first": _INT,
    "nats": [_FLOAT],
    "tokens": [_INT],
    "words": [_INT],
    "bytes": [_INT],
    "impossible": [_INT],
    "unknown": [_INT],
    "unknown_nats": [_FLOAT],
    "unknown_impossible": [_INT],
    "ends": [_INT],
    "ends_nats": [_FLOAT],
    "ends_impossible": [_INT],
}
_PERPLEXITY: Final[dict[str, Any]] = {
    "result": {"document": _TEXT, "part": _INT, "last": _BOOL, "blocks": _BLOCKS},
    "evidence": {"excerpts": [_TEXT], "beginning": {"tokens": [_TEXT], "logprobs": [_FLOAT], "bytes": [_TEXT]}},
}

_GROUNDING: Final[dict[str, Any]] = {
    "result": {
        "instruction": _TEXT,
        "labels": {kind: [_TEXT] for kind in LABELS},
        "image_path": _TEXT,
        "image_sha256": _TEXT,
        "image_size": [_INT],
        "target": {"kind": _TEXT, "coords": [_FLOAT]},
        "gt_coord": [_FLOAT],
        "gt_content": _TEXT,
        "pred_raw": _TEXT,
        "pred_content": _TEXT,
        "pred_coord": [_FLOAT],
        "says": _TEXT,
        "form": _TEXT,
        "why_not": _TEXT,
        "finish_reason": _TEXT,
        "confidence": dict.fromkeys(KINDS, _FLOAT),
        "confidence_missing": dict.fromkeys(KINDS, _TEXT),
        "l2": _FLOAT,
        "within_delta": _BOOL,
        "inside": _BOOL,
        "hit": _BOOL,
        "samples": {"asked": _INT, "points": [[_FLOAT]], "wrong_format": _INT, "refusals": _INT, "failed": _INT},
    },
    "evidence": {"answer": _TOKENS, "samples": [{"text": _TEXT, "failure": _TEXT}]},
}

_STATISTICS: Final = {
    "normalized_entropy": _FLOAT,
    "total_entropy": _FLOAT,
    "token_count": _INT,
    "min_uncertainty": _FLOAT,
    "max_uncertainty": _FLOAT,
    "std_uncertainty": _FLOAT,
    "mean_probability": _FLOAT,
}
_TURN: Final = {
    "number": _INT,
    "actor": _TEXT,
    "role": _TEXT,
    "kind": _TEXT,
    "message_index": _INT,
    "content": _TEXT,
    "calls": [_TEXT],
    "control": [_TEXT],
    "statistics": _STATISTICS,
    "reason": _TEXT,
    "detail": _TEXT,
    "scored_by": _TEXT,
    "tokens": [{"token": _TEXT, "probability": _FLOAT, "neg_log_likelihood": _FLOAT}],
    "drift": _FLOAT,
    "gap": _FLOAT,
}
_SAID: Final = {"role": _TEXT, "text": _TEXT, "turn": _INT, "characters": _INT}
_TRAJECTORIES: Final[dict[str, Any]] = {
    "result": {
        "source": _TEXT,
        "index": _INT,
        "id": _TEXT,
        "task_id": _TEXT,
        "set_name": _TEXT,
        "trial": _INT,
        "domain": _TEXT,
        "agent": _TEXT,
        "reward": _FLOAT,
        "reward_missing": _TEXT,
        "termination": _TEXT,
        "turns": [_TURN],
        "said": [_SAID],
        "marks": [{"kind": _TEXT, "turn": _INT, "severity": _TEXT}],
        "skipped": Keyed(role=_INT),
        "opening": _TEXT,
        "unsupported": _TEXT,
    },
    "evidence": {"said": [_SAID]},
}

_CONDITIONS: Final = ("X", "X|S", "X|L,S")
_CONDITION: Final = {
    "entropy_bits": _FLOAT,
    "entropy_missing": _TEXT,
    "action": _TEXT,
    "action_missing": _TEXT,
    "probabilities": Keyed(action=_FLOAT),
    "other": _FLOAT,
}
_ANSWER: Final = {"text": _TEXT, "logprobs": _TOKENS, "log_likelihoods": Keyed(action=_FLOAT)}
_TRUST: Final[dict[str, Any]] = {
    "result": {
        "episode": _INT,
        "step": _INT,
        "timestamp": _TEXT,
        "agent_x": _INT,
        "agent_y": _INT,
        "agent_dir": _TEXT,
        "carrying": _TEXT,
        "instruction": _TEXT,
        "action": _TEXT,
        "action_probability": _FLOAT,
        "action_confidence": _FLOAT,
        "effect": _TEXT,
        "moved": _BOOL,
        "reward": _FLOAT,
        "reached": _BOOL,
        "trust": _FLOAT,
        "conditions": dict.fromkeys(_CONDITIONS, _CONDITION),
        "knowledge_count": _INT,
        "told": {"feedback": _TEXT, "instruction": _TEXT},
        "learned": [{"sentence": _TEXT, "source": _TEXT, "refused": _TEXT}],
        "left_out": [_TEXT],
        "notes": _TEXT,
        "asked": _TEXT,
        "answer_form": _TEXT,
        "first_asked": _INT,
        "first_episode": _INT,
        "chain": _INT,
        "on_shortest_path": _BOOL,
        "best_actions": [_TEXT],
        "shortest_distance": _INT,
        "path_missing": _TEXT,
    },
    "evidence": {
        "prompts": {condition: [[_TEXT]] for condition in _CONDITIONS},
        "answers": dict.fromkeys(_CONDITIONS, _ANSWER),
    },
}

_COHERENT: Final[dict[str, Any]] = {
    "result": {
        "agent_x": _INT,
        "agent_y": _INT,
        "actions": [_TEXT],
        "p": [[[_FLOAT]]],
        "entropy_H_X": _FLOAT,
        "entropy_H_X_given_S": _FLOAT,
        "entropy_H_X_given_LS": _FLOAT,
        "information_S_bits": _FLOAT,
        "information_LS_bits": _FLOAT,
        "trust_T": _FLOAT,
    },
    "evidence": {"answers": [{"text": _TEXT, "log_likelihoods": Keyed(action=_FLOAT)}]},
}

STUDIES: Final[dict[str, dict[str, Any]]] = {
    "mcq": _MCQ,
    "perplexity": _PERPLEXITY,
    "grounding": _GROUNDING,
    "trajectories": _TRAJECTORIES,
    "trust": _TRUST,
    "trust coherent": _COHERENT,
}


def known_shape(studies: set[str], *, evidence: bool = True) -> Shape:
    """What samples of these studies hold; of a study that is not known, nothing."""
    parts = ("result", "evidence") if evidence else ("result",)
    return shape_of([STUDIES[study] for study in sorted(studies & STUDIES.keys())], parts)
