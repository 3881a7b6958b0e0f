"""Runs as Parquet: one row a sample, columns with types, for DuckDB, Polars and whatever else reads tables."""

from howsure.runs.export.parquet import COMMON_COLUMNS, Exported, is_export, write_parquet
from howsure.runs.export.shapes import Free, Keyed, Shape, shape_of

__all__ = ["COMMON_COLUMNS", "Exported", "Free", "Keyed", "Shape", "is_export", "shape_of", "write_parquet"]
