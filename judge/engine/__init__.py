"""Puts the asks of hearings to models: retries, limits, circuit breaker, budget, reply cache, ensembles."""
