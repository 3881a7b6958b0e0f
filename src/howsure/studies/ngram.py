"""Training an n-gram model on texts and writing it as an ARPA file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from howsure.errors import InputError
from howsure.models.ngram.arpa import write_arpa
from howsure.models.ngram.training import Piece, Smoothing, train
from howsure.options import takes
from howsure.runs.files import storage_errors
from howsure.storage.opening import HELD_FOLD
from howsure.studies.options import TrainOptions
from howsure.studies.texts import Texts, as_paths
from howsure.types import Fields


class TrainedModel(Fields, kw_only=True):
    """A model that was just trained, and what from."""

    model: str
    order: int
    smoothing: str
    documents: int
    skipped: dict[str, int]
    sentences: int
    words: int
    vocabulary: int
    ngrams: list[int]
    discounts: list[list[float]] | None
    """Of each order, for counts of 1, 2, 3 and more."""
    seconds: float


@takes(TrainOptions)
def train_ngram(options: TrainOptions) -> TrainedModel:
    """Train on texts of one sentence a line, write the model to `out`, and say what came of it.

    The model is then `ngram:<out>`, wherever a model is asked for.
    """
    began = time.perf_counter()
    target, smoothing = Path(options.out), _smoothing(options.smoothing)
    check_target(target)
    texts = texts_of(options)
    _keep_apart(target, texts)
    trained = train(pieces(texts), options.order, smoothing, k=options.k, discount_fallback=options.discount_fallback)
    with storage_errors(target):
        write_arpa(trained.table, target)
    return TrainedModel(
        model=f"ngram:{target}",
        order=options.order,
        smoothing=str(smoothing),
        documents=len(texts.documents),
        skipped=texts.skipped,
        sentences=trained.sentences,
        words=trained.words,
        vocabulary=len(trained.table.vocabulary),
        ngrams=list(trained.table.counts),
        discounts=None if trained.discounts is None else [list(one) for one in trained.discounts],
        seconds=time.perf_counter() - began,
    )


def texts_of(options: TrainOptions) -> Texts:
    return Texts(as_paths(options.texts), skip_bad=options.skip_bad, most_fold=HELD_FOLD)


def _smoothing(name: str) -> Smoothing:
    try:
        return Smoothing(name)
    except ValueError as error:
        raise InputError(f"--smoothing {name!r} is not known; known are {', '.join(Smoothing)}") from error


def check_target(path: Path) -> None:
    """Refuse before the work what could not be written after it."""
    if path.is_dir():
        raise InputError(f"--out {path} is a folder: name the file to be written, such as {path / 'model.arpa'}")
    if not path.parent.is_dir():
        raise InputError(f"--out {path}: the folder {path.parent.resolve()} does not exist; make it first")


def _keep_apart(target: Path, texts: Texts) -> None:
    if target.resolve() in {source.path.resolve() for source in texts.sources}:
        raise InputError(f"--out {target} is one of the texts, and would be overwritten: name another file")


def pieces(texts: Texts) -> Iterator[Piece]:
    """The texts in pieces of whole lines; each document ends its last sentence."""
    for document, chunks in texts.stream():
        begun: list[str] = []  # the pieces of a line that has not ended
        lines = 0
        for chunk in chunks:
            head, newline, rest = chunk.rpartition("\n")
            if newline:
                whole = "".join([*begun, head, newline])
                yield Piece(whole.encode(), document.id, lines)
                lines += whole.count("\n")
                begun = []
            begun.append(rest)
        if last := "".join(begun):
            yield Piece(last.encode(), document.id, lines)
