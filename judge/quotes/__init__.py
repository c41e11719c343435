"""Quotes in the reasons of judges: what counts as one, and whether the case holds it."""
