"""Run folders: what a study found, on disk, safe against crashes and readable later."""

from howsure.runs.engine import Engine, Here, Job, LocalEngine, engine_at_hand, open_engine, placed
from howsure.runs.folder import Run, find_runs
from howsure.runs.progress import NoProgress, Progress, Tally
from howsure.runs.records import Identity, Manifest, Sample
from howsure.runs.working import work_along, work_through
from howsure.runs.writer import RunWriter

__all__ = [
    "Engine",
    "Here",
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
    "engine_at_hand",
    "find_runs",
    "open_engine",
    "placed",
    "work_along",
    "work_through",
]
