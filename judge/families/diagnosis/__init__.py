"""The judge `diagnosis`: which turn decided a failed run, and who owns the failure."""
