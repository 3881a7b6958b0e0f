"""How much two phrases mean the same: the cosine of their sentence embeddings.

All phrases of a call are embedded at once. Where the embedder cannot be had, the matcher goes by letters alone; this is
announced once, and the model's fingerprint tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.errors import MissingExtra, WeightsError

LONGEST_PHRASE = 300


class Meaning:
    """The sentence embedder, if it can be had."""

    def __init__(self, announce: Callable[[str], None] | None = None, device: str | None = None) -> None:
        self._announce = announce
        self._device = device
        self._vectors: dict[str, NDArray[np.float32]] = {}

    @cached_property
    def embedder(self) -> Any | None:
        from howsure.models.embedding import SentenceEmbedder

        embedder = SentenceEmbedder(self._announce, device=self._device)
        try:
            embedder.load()
        except (MissingExtra, WeightsError) as error:
            if self._announce is not None:
                self._announce(f"ocr matches by letters alone, not by meaning: {error}")
            return None
        return embedder

    def load(self) -> None:
        _ = self.embedder

    def close(self) -> None:
        embedder = self.__dict__.pop("embedder", None)
        if embedder is not None:
            embedder.close()

    def fingerprint(self) -> dict[str, Any] | None:
        embedder = self.embedder
        return None if embedder is None else dict(embedder.fingerprint())

    def learn(self, phrases: Sequence[str]) -> None:
        """Embed all that are not known yet, together, and forget the others."""
        distinct = sorted({phrase[:LONGEST_PHRASE] for phrase in phrases})
        new = [phrase for phrase in distinct if phrase not in self._vectors]
        known = {phrase: self._vectors[phrase] for phrase in distinct if phrase in self._vectors}
        self._vectors = known
        if self.embedder is None or not new:
            return
        new = [phrase for phrase, good in zip(new, self.embedder.readable(new), strict=True) if good]
        if new:
            known.update(zip(new, self.embedder.embed(new), strict=True))

    def likeness(self, phrase: str, texts: Sequence[str]) -> list[float]:
        """The cosine of a learnt phrase with each learnt text, no less than 0; 0 for what has no vector."""
        own = self._vectors.get(phrase[:LONGEST_PHRASE])
        likenesses = []
        for text in texts:
            other = self._vectors.get(text[:LONGEST_PHRASE])
            likenesses.append(0.0 if own is None or other is None else max(0.0, float(own @ other)))
        return likenesses
