"""What a configuration wants on a Prefect server, and how it gets there."""
