"""Texts that speak to the judge instead of to the agent: found, never obeyed, and counted."""
