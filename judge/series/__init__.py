"""The same number run after run: what it usually is, and when it left that."""
