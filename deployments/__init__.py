"""The edge of the package: command line, HTTP API, settings, Prefect registration, samples."""
