"""`python -m fuzz [--seconds N] [--short [--times N]] [--json] [TARGET …]`: hunt for what a reader does not survive.

With atheris, each target is hunted for N seconds in a process of its own; what it learns is kept in fuzz/corpus/ and is
where the next hunt begins. An input that is found lies in fuzz/found/TARGET/: put it into tests/fuzz/regressions/ as
TARGET.what-it-does, and mend the reader. Without atheris, or with --short, the fixed round of `make test` is run.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import msgspec

from fuzz import scratch
from fuzz.limits import MOST_SECONDS
from fuzz.mutations import LARGEST_BYTES
from fuzz.rounds import Finding, Outcome, chosen, import_everything, run_apart
from fuzz.targets import Target

HERE = Path(__file__).parent
CORPUS, FOUND = HERE / "corpus", HERE / "found"
LONG_ROUND = 20
"""Without atheris: so many times the inputs of `make test`."""
HANG_SECONDS = 10
"""libFuzzer's own limit, which sees the time of the clock: a busy machine must not look like a slow reader."""
MOST_MEMORY_MB = 2048
TALKATIVE = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}


def main() -> int:
    options = _options()
    targets = chosen(options.targets)
    short = options.short or find_spec("atheris") is None
    times = options.times or (1 if options.short else LONG_ROUND)
    if short and not options.short:
        print(f"atheris is not installed here, so hypothesis alone feeds {times} times its usual round")
    if short:
        import_everything()
    outcomes = []
    for target in targets:
        if not target.is_here:
            _say(options.json, f"{target.name:18} left out: {target.needs} is not installed")
            continue
        outcome = run_apart(target, times * target.examples) if short else _hunted(target, options.seconds)
        outcomes.append(outcome)
        _say(options.json, _line(outcome))
    if options.json:
        print(msgspec.json.encode(outcomes).decode())
    return 1 if any(outcome.finding for outcome in outcomes) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Feed every reader with what is almost good.")
    parser.add_argument("targets", nargs="*", help="which targets; all of them where none is named")
    parser.add_argument("--seconds", type=int, default=60, help="how long each target is hunted (default: 60)")
    parser.add_argument("--short", action="store_true", help="the fixed round of make test")
    parser.add_argument(
        "--times", type=int, help=f"so many times its inputs (default: 1; without atheris {LONG_ROUND})"
    )
    parser.add_argument("--json", action="store_true", help="print what came of it as JSON")
    return parser.parse_args()


def _hunted(target: Target, seconds: int) -> Outcome:
    """What atheris found in so many seconds; libFuzzer's words go to fuzz/found/TARGET/log."""
    found, corpus = FOUND / target.name, CORPUS / target.name
    found.mkdir(parents=True, exist_ok=True)
    corpus.mkdir(parents=True, exist_ok=True)
    before = set(found.iterdir())
    command = [sys.executable, "-m", "fuzz.hunt", target.name, str(corpus), f"-artifact_prefix={found}/"]
    limits = [f"-max_total_time={seconds}", f"-timeout={HANG_SECONDS}", f"-rss_limit_mb={MOST_MEMORY_MB}"]
    log = found / "log"
    with log.open("wb") as out, tempfile.TemporaryDirectory(prefix="howsure-fuzz-", dir=scratch.ram()) as room:
        env = os.environ | TALKATIVE | {scratch.HERE: room}
        done = subprocess.run([*command, *limits, f"-max_len={LARGEST_BYTES}"], stdout=out, stderr=out, env=env)
    said = log.read_text(encoding="utf-8", errors="replace")
    runs = [int(number) for number in re.findall(r"^#(\d+)", said, re.MULTILINE)]
    inputs = sorted(set(found.iterdir()) - before - {log})
    if done.returncode == 0 and not inputs:
        return Outcome(target.name, max(runs, default=0))
    data = inputs[0].read_bytes() if inputs else b""
    where = f"{inputs[0] if inputs else 'no input was saved'}; {log} has the rest"
    return Outcome(target.name, max(runs, default=0), Finding(_why(said), where, data))


def _why(said: str) -> str:
    """What Python raised, or what libFuzzer says itself."""
    raised = re.search(r"=== Uncaught Python exception: ===\n(.*)", said)
    if raised is not None:
        return raised[1][:500]
    lines = re.findall(r"^(?:==\d+== ?ERROR: .*|SUMMARY: .*)$", said, re.MULTILINE)
    return lines[0][:500] if lines else "it ended without a word"


def _line(outcome: Outcome) -> str:
    took = f"{outcome.inputs:>9,} inputs"
    limits = f"none above {MOST_SECONDS:g} s"
    return f"{outcome.target:18} {took}; " + (f"FOUND {outcome.finding}" if outcome.finding else f"nothing, {limits}")


def _say(quiet: bool, text: str) -> None:
    if not quiet:
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
