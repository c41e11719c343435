"""How a case becomes a prompt, and how the text of a model becomes the reply that was asked for."""
