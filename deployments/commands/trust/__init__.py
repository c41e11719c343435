"""Commands that say how far a judge and a series of runs can be trusted."""
