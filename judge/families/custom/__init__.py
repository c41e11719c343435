"""Judges of your own: TOML files, and functions or classes in Python."""
