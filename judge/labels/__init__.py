"""Labels that people give to judged cases: which of them count, and which cases are to be labelled."""
