"""Perplexity: `howsure.perplexity`, and the study behind it."""

from howsure.studies.perplexity.study import PERPLEXITY, PerplexityOptions
from howsure.studies.study import python_function

__all__ = ["PERPLEXITY", "PerplexityOptions", "perplexity"]

perplexity = python_function(PerplexityOptions, PERPLEXITY)
