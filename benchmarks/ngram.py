"""n-gram models: reading a text against PyPI's kenlm on the same ARPA file, and training.

Texts: the King James Bible of ../shared/data/ngram where it is there, else one made of random words, as large.
"""

from __future__ import annotations

import gzip
import math
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import Case

KJV = Path(__file__).parents[2] / "shared" / "data" / "ngram"


def cases() -> list[Case]:
    import howsure

    training, test = _texts()
    folder = tempfile.TemporaryDirectory()  # it is gone when the last contender is, which holds it
    source, arpa = Path(folder.name) / "train.txt", Path(folder.name) / "model.arpa"
    source.write_bytes(training)

    def train_and_write(_: Any = folder) -> dict[str, Any]:
        return howsure.train_ngram(source, arpa, order=3)

    began = time.process_time()
    trained = train_and_write()
    notes = {
        "words": f"{trained['words']:,}",
        "seconds of one core, the first time": f"{time.process_time() - began:.2f}",
    }
    return [_reading(howsure.load(f"ngram:{arpa}"), arpa, test), _training(training, train_and_write, notes)]


def _reading(model: Any, arpa: Path, test: str) -> Case:
    import kenlm

    from howsure.models.contract import Rolling

    other = kenlm.Model(str(arpa))
    lines = test.splitlines()

    def ours() -> float:
        return sum(float(found.logprobs.sum()) for found in model.read(list(model.passages([test], Rolling()))))

    def theirs() -> float:
        return sum(other.score(line) for line in lines)

    gap = abs(ours() / math.log(10) - theirs()) / len(lines)
    assert gap < 1e-4, f"the contenders differ by {gap} a line"
    return Case("reading a text by words", {"howsure": ours, "kenlm": theirs}, {"words": f"{len(test.split()):,}"})


def _training(text: bytes, train_and_write: Callable[[], Any], notes: dict[str, Any]) -> Case:
    """With the text read and checked and the ARPA file written, and the share of counting and smoothing alone."""
    from howsure.models.ngram.training import Piece, train

    contenders = {"whole": train_and_write, "counting and smoothing alone": lambda: train([Piece(text)], 3)}
    return Case("training, modified Kneser–Ney, order 3", contenders, notes)


def _texts() -> tuple[bytes, str]:
    if KJV.is_dir():
        return gzip.decompress((KJV / "kjv.train.txt.gz").read_bytes()), (KJV / "kjv.test.txt").read_text()
    draw = random.Random(0)
    words = [f"w{int(draw.paretovariate(0.9)) % 12_000}" for _ in range(790_000)]
    lines = [" ".join(words[i : i + 26]) + "\n" for i in range(0, len(words), 26)]
    return "".join(lines[:-1550]).encode(), "".join(lines[-1550:])
