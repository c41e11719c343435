"""The agent-step judges of seed 002: SQL, search, visualization, response quality, trajectory."""
