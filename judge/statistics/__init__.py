"""Intervals, tests and verdicts over arrays of case values; pure functions, fixed seeds."""
