"""The front door for Python: `assizes.evaluate` and what it returns, in a script or a notebook."""
