"""Labels that people give to judged cases: which of them count."""
