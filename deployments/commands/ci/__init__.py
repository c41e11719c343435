"""What `assizes ci` does: it runs, compares with the base branch, and tells the CI service."""
