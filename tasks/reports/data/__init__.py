"""Computes what reports and pages show; the parts of a report are models of `schema`."""
