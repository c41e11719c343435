"""Texts as vectors, by a model on this machine."""
