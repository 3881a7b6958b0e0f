"""What studies ask about: questions, screens and clicks, maps, knowledge, texts, n-gram models."""

from __future__ import annotations

import contextlib
import functools
import shutil
from pathlib import Path

from fuzz.scratch import folder, put
from howsure.errors import HowsureError


def questions(data: bytes) -> None:
    from howsure.studies.mcq.data import read_questions

    path = put("questions.jsonl", data)
    read_questions(path, skip_bad=True, image_root=_screens())
    read_questions(path, max_samples=2, image_root=_screens())


def clicks_json(data: bytes) -> None:
    """ScreenSpot, OSWorld-G, flat lines and chats: content tells which."""
    _items(put("clicks.json", data))


def clicks_pickle(data: bytes) -> None:
    _items(put("user_1.pkl", data))


def image(data: bytes) -> None:
    from howsure.models.decoding import shown_size
    from howsure.models.images import Picture

    width, height = map(int, shown_size(data, b"screen.png").split())  # as in the process with limits
    Picture.made(data, "screen.png", (width, height)).to_send()


def map_(data: bytes) -> None:
    """Read, drawn, told, and walked through to its end where there is a way."""
    from howsure.studies.trust.world.worlds import open_world

    world = open_world(put("map.json", data))
    try:
        world.reset(0)
        world.best_actions()
        world.text()
        world.picture()
        for action in world.actions:
            world.act(action)
    finally:
        world.close()


def knowledge(data: bytes) -> None:
    from howsure.studies.trust.knowledge import read_knowledge, read_sets, repeats, take_up

    path = put("grounding.txt", data)
    told = ["go to the red ball", "빨간 공으로 가"]
    known: list[str] = []
    with contextlib.suppress(HowsureError):  # a list of lists is good for the other reader only
        for sentence in read_knowledge(path):
            repeats(sentence, told)
            found = take_up(sentence, "file", known[:20], told, sentence)
            known += [] if found is None else [found.sentence]
    read_sets(path)


def texts(data: bytes) -> None:
    _texts(put("text.txt", data))


def texts_json(data: bytes) -> None:
    _texts(put("texts.jsonl", data))


def texts_gzip(data: bytes) -> None:
    _texts(put("text.txt.gz", data))


def arpa(data: bytes) -> None:
    """Plain or gzipped: the content tells. A model that was taken must be able to read."""
    from howsure.models.ngram.arpa import arpa_lines, read_arpa

    table = read_arpa(put("model.arpa", data))
    b"".join(arpa_lines(table))


def policy_config(data: bytes) -> None:
    """config.json of a LeRobot policy; its weights are an empty file that nobody opens."""
    from howsure.models.hf.files import ModelFiles
    from howsure.models.lerobot import Checkpoint

    put("policy/model.safetensors", b"")
    files = ModelFiles(str(put("policy/config.json", data).parent))
    try:
        checkpoint = Checkpoint(files)
    finally:
        shutil.rmtree(files.path)
    for about in ("centred", "resizes_like_pillow", "tokenizer_name"):
        getattr(checkpoint, about)


def entropy_text(data: bytes) -> None:
    from howsure.runs.files import to_json
    from howsure.studies.entropy import entropy_of_text, read_texts

    path = str(put("book.txt", data))
    for symbols in ("words", "characters", "bytes"):
        to_json(entropy_of_text(read_texts([path]), symbols, 3).to_dict())  # type: ignore[arg-type]


def entropy_gzip(data: bytes) -> None:
    from howsure.studies.entropy import entropy_of_text, read_texts

    entropy_of_text(read_texts([str(put("book.gz", data))]), "bytes", 2)


def _texts(path: Path) -> None:
    from howsure.studies.texts import Texts

    for _, pieces in Texts([path], skip_bad=True).stream():
        for _ in pieces:
            pass


def _items(path: Path) -> None:
    from howsure.studies.grounding.reading.data import read_items

    for parser in ("strict", "compat"):
        read_items(path, parser=parser, skip_bad=True, image_root=_screens())


@functools.cache
def _screens() -> Path:
    """Images that the data may name."""
    from fuzz.seeds import png

    for name in ("a.png", "b.png"):
        put(f"screens/{name}", png())
    return folder() / "screens"
