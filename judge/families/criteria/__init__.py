"""Answer criteria and answer completeness."""
