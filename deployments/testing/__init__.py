"""The pytest plugin `assizes.pytest`: conversations judged in tests, as one run a session."""
