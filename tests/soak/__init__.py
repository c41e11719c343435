"""Harm on purpose: kills, lost acknowledgements, flipped bytes; then the rows are counted."""
