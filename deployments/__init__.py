"""The edge: command line, HTTP API, settings, registration on Prefect servers, samples."""
