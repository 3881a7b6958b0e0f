"""Run folders: what a study measured, on disk, safe against crashes and readable later."""

from howsure.runs.engine import Engine, EngineOptions, Job, LocalEngine, NoProgress, Progress, Tally, opened_engine
from howsure.runs.folder import Run, RunWriter
from howsure.runs.places import find_runs
from howsure.runs.reading import Identity, Manifest, Sample

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
