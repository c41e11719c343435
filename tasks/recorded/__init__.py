"""Recorded judgements of others: their sets, what their judges are worth, and the published figures."""
