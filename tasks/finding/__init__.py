"""Finding cases of stored runs: the words of a search, an index over texts, filters and orders."""
