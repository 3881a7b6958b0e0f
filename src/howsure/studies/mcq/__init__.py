"""Multiple choice: `howsure.mcq`, and the study behind it."""

from howsure.studies.mcq.study import MCQ, McqOptions
from howsure.studies.study import python_function

__all__ = ["MCQ", "McqOptions", "mcq"]

mcq = python_function(McqOptions, MCQ)
