"""Grounding: where does the model click, how far off, and does it know?"""
