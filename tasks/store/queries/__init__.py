"""What bounds the queries of `assizes sql`, and what makes tables of their answers."""
