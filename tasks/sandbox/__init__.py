"""The sandbox: runs untrusted SQL in a child process without files or network.

SQL is code, and DuckDB's own locked configuration does not bound memory or time. So the operating
system bounds them for a child process. `child.py` is the program of the child, `worker.py` talks to
the child and makes the private copies of databases that it reads, and `sql_runner.py` answers the
queries of judges.
"""
