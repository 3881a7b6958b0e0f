"""`ocr`: reads the text on a screen and clicks what matches the instruction. The baseline of the study `grounding`.

No network sees the instruction: RapidOCR reads the screen (`reading`), the instruction is taken apart by how such
sentences are built (`instruction`), and its parts are matched to what was read (`matcher`), by letters first and by
meaning where no letters fit. The certainty of a click is how well the name fits and how far it leads over other places.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

from howsure.errors import InputError, MissingExtra, WeightsError
from howsure.models.contract import Capability, Click, ClickRequest, Counters, Failure, Model, ModelOptions
from howsure.models.images import Picture
from howsure.models.ocr.matcher import choose
from howsure.models.ocr.reading import ScreenReader
from howsure.models.ocr.screen import Screen

MATCHER = 2
"""Counts the changes of the matcher that give other clicks."""

SCREENS_KEPT = 16
LONGEST_PHRASE = 300


class OcrModel(Model):
    """RapidOCR and a matcher."""

    name = "ocr"
    capabilities = frozenset({Capability.CLICK})

    def __init__(self, options: ModelOptions | None = None) -> None:
        options = options or ModelOptions()
        self.counters = Counters()
        self.reader = ScreenReader()
        self.meaning = Meaning(options.announce, options.device)
        self._screens: OrderedDict[str, Screen] = OrderedDict()

    def load(self) -> None:
        self.reader.load()
        self.meaning.load()

    def close(self) -> None:
        self.reader.close()
        self.meaning.close()
        self._screens.clear()

    def fingerprint(self) -> dict[str, Any]:
        return {
            "kind": "ocr",
            "reader": self.reader.fingerprint(),
            "matcher": MATCHER,
            "embedder": self.meaning.fingerprint(),
        }

    def click(self, requests: Sequence[ClickRequest]) -> list[Click | Failure]:
        """One click for each request; every distinct image is read once."""
        self.counters.calls += 1
        screens: dict[str, Screen | Failure] = {}
        for picture in (request.screen for request in requests):
            if picture.sha256 not in screens:
                screens[picture.sha256] = self._read(picture)
        return [self._click(request, screens[request.screen.sha256]) for request in requests]

    def _click(self, request: ClickRequest, screen: Screen | Failure) -> Click | Failure:
        if isinstance(screen, Failure):
            return screen
        if not screen.texts:
            return Failure("no_text", f"no text can be read on {request.screen.path}")
        choice = choose(request.instruction, screen, self.meaning.likeness)
        if choice is None:
            return Failure("no_instruction", "the instruction names nothing to look for")
        return Click(choice.x, choice.y, choice.confidence, choice.words, choice.how)

    def _read(self, picture: Picture) -> Screen | Failure:
        if picture.sha256 in self._screens:
            self._screens.move_to_end(picture.sha256)
            return self._screens[picture.sha256]
        try:
            image = picture.load()
        except InputError as error:
            return Failure("unreadable_image", str(error))
        self.counters.images_run += 1
        screen = self.reader.read(image)
        self._screens[picture.sha256] = screen
        while len(self._screens) > SCREENS_KEPT:
            self._screens.popitem(last=False)
        return screen


class Meaning:
    """How much two phrases mean the same: the cosine of their sentence embeddings.

    Where the embedder cannot be had, the matcher goes by letters alone; this is announced once, and the model's
    fingerprint tells.
    """

    def __init__(self, announce: Callable[[str], None] | None = None, device: str | None = None) -> None:
        self._announce = announce
        self._device = device
        self._vectors = lru_cache(maxsize=2 * SCREENS_KEPT)(self._embedded)

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
        self._vectors.cache_clear()

    def fingerprint(self) -> dict[str, Any] | None:
        return None if self.embedder is None else dict(self.embedder.fingerprint())

    def likeness(self, phrase: str, texts: Sequence[str]) -> list[float]:
        """The cosine of a phrase with each text, no less than 0; 0 for what has no vector."""
        own = self._vectors((phrase[:LONGEST_PHRASE],)).get(phrase[:LONGEST_PHRASE])
        cut = tuple(text[:LONGEST_PHRASE] for text in texts)
        vectors = self._vectors(cut)
        return [0.0 if own is None or text not in vectors else max(0.0, float(own @ vectors[text])) for text in cut]

    def _embedded(self, texts: tuple[str, ...]) -> dict[str, Any]:
        """A vector for each text that has words; those of a screen together, so that they are the same in every run."""
        if self.embedder is None:
            return {}
        readable = [text for text, good in zip(texts, self.embedder.readable(texts), strict=True) if good]
        return dict(zip(readable, self.embedder.embed(readable), strict=True)) if readable else {}
