"""The Prefect tasks: each does some I/O around one call into the domain."""
