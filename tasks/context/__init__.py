"""The context of a run: what a run opens once, and what other processes check against it."""
