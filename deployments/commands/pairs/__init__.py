"""What `assizes compare --pairwise` and `assizes rank` do."""
