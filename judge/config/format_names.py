"""The names by which transcript formats are chosen."""

from __future__ import annotations

from typing import Literal

FormatName = Literal[
    "auto",
    "native",
    "tau_bench",
    "tau2",
    "agent_evaluation",
    "openai_chat",
    "openai_logs",
    "anthropic",
    "otel",
    "langfuse",
    "mlflow",
    "inspect_ai",
    "atif",
]
"""What `[transcripts] format` may be."""
