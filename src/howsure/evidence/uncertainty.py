"""From evidence to entropy: what the alternatives of each token say about how open the choice was."""

from __future__ import annotations

import numpy as np

from howsure.evidence.types import TokenLogprobs, TopAlternatives
from howsure.measures import TopKEntropies, topk_entropies

SAME_LOGPROB_NATS = 1e-3
"""Two entries with the same text and log-probabilities this close are the same token, where bytes do not decide."""


def entropies_from_top(evidence: TokenLogprobs, vocab_size: int | None = None) -> TopKEntropies | None:
    """Bucket entropy and bounds at each position, the chosen token counted as known; None without alternatives."""
    if evidence.top is None:
        return None
    inside = [chosen_place(evidence, evidence.top, i) is not None for i in range(len(evidence))]
    outside = np.where(inside, np.nan, evidence.logprobs)
    return topk_entropies(evidence.top.logprobs, evidence.top.starts, chosen_logprobs=outside, vocab_size=vocab_size)


def chosen_place(evidence: TokenLogprobs, top: TopAlternatives, i: int) -> int | None:
    """Where among all alternatives the chosen token of a position stands; None where it is not one of them.

    Half characters share a text, so bytes go first.
    """
    chosen = evidence.token_bytes[i] if evidence.token_bytes is not None else None
    for j in range(int(top.starts[i]), int(top.starts[i + 1])):
        other = top.token_bytes[j] if top.token_bytes is not None else None
        if chosen is not None and other is not None:
            if chosen == other:
                return j
        elif top.tokens[j] == evidence.tokens[i]:
            a, b = top.logprobs[j], evidence.logprobs[i]
            if a == b or abs(a - b) <= SAME_LOGPROB_NATS:  # both may be −inf
                return j
    return None
