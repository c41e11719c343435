"""Prefect tasks, one I/O act around one domain call each, and the I/O that they need."""
