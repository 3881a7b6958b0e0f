"""Run folders: what a study found, on disk, safe against crashes and readable later."""

from howsure.runs.engine import NoProgress, Progress, Tally, work_along, work_through
from howsure.runs.folder import Run, RunWriter, find_runs
from howsure.runs.records import Identity, Manifest, Sample

__all__ = [
    "Identity",
    "Manifest",
    "NoProgress",
    "Progress",
    "Run",
    "RunWriter",
    "Sample",
    "Tally",
    "find_runs",
    "work_along",
    "work_through",
]
