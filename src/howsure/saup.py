"""SAUP's single-step functions, under the names by which scripts know them; see `howsure.studies.trajectories.saup`."""

from howsure.studies.trajectories.saup import (
    calculate_normalized_entropy,
    calculate_token_level_uncertainties,
    get_response_statistics,
    process_all_simulations,
)

__all__ = [
    "calculate_normalized_entropy",
    "calculate_token_level_uncertainties",
    "get_response_statistics",
    "process_all_simulations",
]
