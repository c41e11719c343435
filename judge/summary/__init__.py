"""The summary of a run from its rows: metrics, coverage, intervals, spending, warnings."""
