"""Trajectories: `howsure.trajectories`, and the study behind it."""

from howsure.studies.study import python_function
from howsure.studies.trajectories.intervention import Policy
from howsure.studies.trajectories.study import TRAJECTORIES, Result, TrajectoriesOptions

__all__ = ["TRAJECTORIES", "Policy", "Result", "TrajectoriesOptions", "trajectories"]

trajectories = python_function(TrajectoriesOptions, TRAJECTORIES)
