"""The verdict on one case: gates, root cause, contradictions, and the rows of the case."""
