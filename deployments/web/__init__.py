"""The HTTP API and the pages: routers, and what stands guard before them."""
