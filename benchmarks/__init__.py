"""Benchmarks: what is fast, by how much, against what; each figure a ratio measured within one run."""
