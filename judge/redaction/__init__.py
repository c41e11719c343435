"""Hides personal data and secrets in cases before a model, the store or a report sees them."""
