"""Clicks on screens. `study` has the study itself; here is nothing, so that the command line starts quickly."""
