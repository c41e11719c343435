"""Servers that speak the batch protocols of providers other than OpenAI, each a process."""
