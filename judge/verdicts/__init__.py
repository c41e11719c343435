"""The verdict on one case: gates, root cause, contradictions, and its rows; how a run ends."""
