"""The store that is one DuckDB file."""
