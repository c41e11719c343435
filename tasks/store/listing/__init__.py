"""What lists of runs and comparisons read: an index beside the runs, and documents of many runs."""
