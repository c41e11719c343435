"""Turns a case into a prompt, and the text of a model into the reply that a judge asked for."""
