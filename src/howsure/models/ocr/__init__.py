"""`ocr`: reads the text on a screen and clicks what matches the instruction. The baseline of the study `grounding`.

No network sees the instruction: RapidOCR reads the screen (`reading`), the instruction is taken apart by how such
sentences are built (`phrases`), and its parts are matched to what was read (`matcher`), by letters first and by meaning
where no letters fit. The certainty of a click is how well the name fits and how far it leads over other places.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from howsure.errors import InputError
from howsure.models.contract import Capability, Click, ClickRequest, Counters, Failure, Model, ModelOptions
from howsure.models.images import Picture
from howsure.models.ocr.matcher import Choice, choose
from howsure.models.ocr.meaning import Meaning
from howsure.models.ocr.reading import ScreenReader
from howsure.models.ocr.screen import Screen

MATCHER = 1
"""Counts the changes of the matcher that give other clicks."""

SCREENS_KEPT = 16


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
        """One click for each request. Every distinct image is read once; what needs a meaning is embedded together."""
        self.counters.calls += 1
        screens = self._read_all([request.screen for request in requests])
        asked: dict[int, list[str]] = {}
        clicks = [self._first(i, request, screens[request.screen.sha256], asked) for i, request in enumerate(requests)]
        if asked:
            self.meaning.learn([phrase for phrases in asked.values() for phrase in phrases])
        for i in asked:
            screen = screens[requests[i].screen.sha256]
            if isinstance(screen, Screen):
                clicks[i] = _as_click(choose(requests[i].instruction, screen, self.meaning.likeness))
        return clicks

    def _first(
        self, i: int, request: ClickRequest, screen: Screen | Failure, asked: dict[int, list[str]]
    ) -> Click | Failure:
        """The click by letters; the phrases whose meaning would help are noted in `asked`."""
        if isinstance(screen, Failure):
            return screen
        if not screen.texts:
            return Failure("no_text", f"no text can be read on {request.screen.path}")

        def note(phrase: str, texts: Sequence[str]) -> list[float]:
            asked.setdefault(i, []).extend((phrase, *texts))
            return [0.0] * len(texts)

        return _as_click(choose(request.instruction, screen, note))

    # -- screens ------------------------------------------------------------------------------------------------

    def _read_all(self, pictures: Sequence[Picture]) -> dict[str, Screen | Failure]:
        screens: dict[str, Screen | Failure] = {}
        for picture in pictures:
            if picture.sha256 not in screens:
                screens[picture.sha256] = self._read(picture)
        return screens

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


def _as_click(choice: Choice | None) -> Click | Failure:
    if choice is None:
        return Failure("no_instruction", "the instruction names nothing to look for")
    return Click(choice.x, choice.y, choice.confidence, choice.words, choice.how)
