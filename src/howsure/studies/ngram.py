"""Training an n-gram model on texts and writing it as an ARPA file."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from howsure.errors import InputError
from howsure.models.ngram.arpa import write_arpa
from howsure.models.ngram.estimate import Smoothing
from howsure.models.ngram.training import Piece, train
from howsure.runs.files import storage_errors
from howsure.storage.unpacking import HELD_FOLD
from howsure.studies.texts import PathLike, Texts, as_paths

DEFAULT_ORDER = 3


def train_ngram(
    texts: PathLike | Sequence[PathLike],
    out: PathLike,
    *,
    order: int = DEFAULT_ORDER,
    smoothing: str | Smoothing = Smoothing.MODIFIED_KNESER_NEY,
    k: float = 1.0,
    discount_fallback: bool = False,
    skip_bad: bool = False,
) -> dict[str, Any]:
    """Train on texts of one sentence a line, write the model to `out`, and say what came of it.

    The model is then `ngram:<out>`, wherever a model is asked for.
    """
    began = time.perf_counter()
    target, way = Path(out), _smoothing(smoothing)
    check_target(target)
    read = Texts(as_paths(texts), skip_bad=skip_bad, most_fold=HELD_FOLD)
    _keep_apart(target, read)
    trained = train(pieces(read), order, way, k=k, discount_fallback=discount_fallback)
    with storage_errors(target):
        write_arpa(trained.table, target)
    return {
        "model": f"ngram:{target}",
        "order": order,
        "smoothing": str(way),
        "documents": len(read.documents),
        "skipped": read.skipped,
        "sentences": trained.sentences,
        "words": trained.words,
        "vocabulary": len(trained.table.vocabulary),
        "ngrams": trained.table.counts,
        "discounts": None if trained.discounts is None else [list(one) for one in trained.discounts],
        "seconds": time.perf_counter() - began,
    }


def _smoothing(name: str | Smoothing) -> Smoothing:
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
