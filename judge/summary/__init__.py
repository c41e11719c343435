"""The scores of a run become its summary: metrics, coverage, intervals, spending, warnings."""
