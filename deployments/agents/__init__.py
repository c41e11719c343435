"""`assizes mcp`: the tools through which assistants read a store, and with leave write to it."""
