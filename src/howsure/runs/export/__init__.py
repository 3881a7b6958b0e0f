"""Runs as Parquet: one row a sample, columns with types, for DuckDB, Polars and whatever else reads tables."""

from howsure.runs.export.parquet import COMMON_COLUMNS, Exported, Holds, is_export, write_parquet

__all__ = ["COMMON_COLUMNS", "Exported", "Holds", "is_export", "write_parquet"]
