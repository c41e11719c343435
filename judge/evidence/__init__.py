"""Facts about tool calls, steps and SQL results, computed before any model is asked."""
