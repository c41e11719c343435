"""Answer criteria and answer completeness (seed 003)."""
