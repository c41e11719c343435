"""The agent-step judges: SQL, search, visualization, response quality, trajectory."""
