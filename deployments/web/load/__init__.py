"""Many clients at once: how many requests are worked on, and what waiting requests share."""
