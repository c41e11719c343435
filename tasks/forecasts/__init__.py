"""Forecasts of a run over its real input: nothing is asked, nothing is written."""
