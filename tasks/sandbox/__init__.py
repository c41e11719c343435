"""Untrusted SQL runs here: a child process with no files, no network, little time and memory.

SQL is code, and DuckDB's own locked configuration does not bound memory or time, so the operating
system has to. `child.py` is the program of the child, `worker.py` talks to it, `fixtures.py` makes
the private copies it reads.
"""
