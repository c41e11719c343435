"""The yes/no judges of seed 004 and the measures of retrieval."""
