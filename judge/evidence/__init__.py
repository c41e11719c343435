"""What tool calls, steps and SQL results say before any model is asked."""
