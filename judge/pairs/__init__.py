"""Verdicts on pairs: win rates, position and length bias, and the rank of several runs."""
