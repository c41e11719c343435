"""The verdict on one case: gates, root cause, contradictions, and the rows that a case leaves."""
