"""One target under atheris, in a process of its own: `python -m fuzz.hunt TARGET CORPUS [libFuzzer's options]`.

Coverage is traced within howsure alone. Half of the new inputs are libFuzzer's, half come from `mutations.py`, which
knows the form. What is found ends the process, with the input saved where libFuzzer was told to.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    import atheris

    name, corpus, *options = arguments
    with atheris.instrument_imports(include=["howsure"]):
        from fuzz.limits import feed
        from fuzz.targets import TARGETS

        target = TARGETS[name]
        for seed in target.seeds():
            target.feed(seed)  # without limits: everything is imported, and thereby traced, before the hunt
    from fuzz.mutations import mutated

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.randrange(2):
            return atheris.Mutate(data, most)
        return mutated(data or rng.choice(target.seeds()), target.form, rng)[:most]

    _put_seeds(Path(corpus), target.seeds())
    atheris.Setup([sys.argv[0], corpus, *options], lambda data: feed(target.feed, data), custom_mutator=mutate)
    atheris.Fuzz()


def _put_seeds(corpus: Path, seeds: list[bytes]) -> None:
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)


if __name__ == "__main__":
    main(sys.argv[1:])
