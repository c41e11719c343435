"""Judges that a user writes: TOML files, and functions or classes in Python."""
