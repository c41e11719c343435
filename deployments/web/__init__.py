"""The HTTP API and the web pages: routers, request guard, models of requests and responses."""
