"""Batches of asks at the endpoints of model providers: files, a durable log, and the client."""
