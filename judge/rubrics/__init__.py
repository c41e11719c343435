"""The texts of the built-in rubrics as TOML files, and the loader of rubric files."""
