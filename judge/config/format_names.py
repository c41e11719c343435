"""The names of transcript formats, apart from the readers so that settings import no reader."""

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
"""The values of `[transcripts] format`; `auto` recognises the format by its content."""
