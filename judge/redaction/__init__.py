"""Hides personal data and secrets of a case before a model, the store or a report sees the case."""
