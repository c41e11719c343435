"""The work of each command, and its output; the modules `*cli.py` only parse arguments."""
