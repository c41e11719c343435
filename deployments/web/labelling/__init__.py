"""Pages on which people say what they think of cases, runs and findings."""
