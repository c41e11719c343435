"""Suites on disk: a folder of cases that failed once, what runs over it say, and how it grows."""
