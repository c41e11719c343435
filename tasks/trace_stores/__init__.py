"""Trace stores of others: Langfuse, MLflow and Phoenix, reached over HTTP to read and to write."""
