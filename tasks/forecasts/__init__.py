"""Forecasts of a run over its real input, without calling a model and without writing anything."""
