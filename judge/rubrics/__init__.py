"""The text of every rubric, as data in TOML files, and its loader."""
