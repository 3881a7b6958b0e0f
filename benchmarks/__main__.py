"""`make bench`, or `python -m benchmarks [NAME …]`: measure, print, and keep the raw figures in benchmarks/out."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.harness import as_data, as_markdown, environment, measure

ENTRIES = (
    "shared_prefix",
    "against_lm_eval",
    "tokenising",
    "ngram",
    "trajectories",
    "conversations",
    "trust_world",
    "trust_steps",
    "grounding_parser",
    "grounding_ocr",
    "images",
    "viewer",
    "export",
    "scale",
    "engines",
    "writing",
)


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - set(ENTRIES))
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(ENTRIES)}", file=sys.stderr)
        return 2
    folder = Path(__file__).parent / "out"
    folder.mkdir(exist_ok=True)
    print(", ".join(f"{name} {value}" for name, value in environment().items()))
    for name in names or ENTRIES:
        cases = import_module(f"benchmarks.{name}").cases()
        measured = [one for case in cases for one in measure(case)]
        print(f"\n{as_markdown(measured, cases)}")
        (folder / f"{name}.json").write_text(json.dumps(as_data(measured, cases), indent=2) + "\n")
        print(f"\nraw figures: {folder / f'{name}.json'}")
    return 0


sys.exit(main(sys.argv[1:]))
