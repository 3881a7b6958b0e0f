"""Clicks against targets, and confidence against hits."""
