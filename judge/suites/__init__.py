"""Suites: cases that failed once, kept with what they failed at, so that no failure comes back."""
