"""Thresholds of cascades, set from labels and a run that asked both sides."""
