"""Runs as pages: the same parts make the report of a run, the viewer's pages, and what a notebook shows."""
