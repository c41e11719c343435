"""Prefect tasks: one I/O act around one domain call each."""
