"""Fuzzing: every reader of howsure fed with documents that are almost good, under limits of time and memory.

`python -m fuzz` (or `make fuzz`) lets atheris hunt for new inputs, one target after the other; `make test` runs a
short, fixed round of the same mutations through hypothesis. `targets.py` is the table of what is fed, `seeds.py` the
good documents that everything begins with, `mutations.py` what is done to them, `limits.py` what an input may cost.
"""
