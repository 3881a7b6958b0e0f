"""Run folders: what a study measured, on disk, safe against crashes and readable later."""

from howsure.runs.engine import Engine, EngineOptions, Job, LocalEngine, opened_engine
from howsure.runs.folder import Run, find_runs
from howsure.runs.progress import NoProgress, Progress, Tally
from howsure.runs.records import Identity, Manifest, Sample
from howsure.runs.writer import RunWriter

__all__ = [
    "Engine",
    "EngineOptions",
    "Identity",
    "Job",
    "LocalEngine",
    "Manifest",
    "NoProgress",
    "Progress",
    "Run",
    "RunWriter",
    "Sample",
    "Tally",
    "find_runs",
    "opened_engine",
]
