"""A long run in few tokens: a digest, spans, what a search finds, and whether quotes stand in it."""
