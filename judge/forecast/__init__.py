"""Forecasts of what a run would ask and cost, computed without calling a model."""
