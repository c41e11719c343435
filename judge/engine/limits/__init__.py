"""How fast models may be called: calls in flight, requests and tokens a minute."""
