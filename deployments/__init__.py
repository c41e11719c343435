"""The edge: command line, settings, samples, the background Prefect server."""
