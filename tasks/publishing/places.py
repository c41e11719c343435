"""The place to which a run is published: which one a setting or the run itself names."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from assizes.judge.config.publishing import SCHEMES, PublishConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.publishing.destination import PROJECT, Destination
from assizes.tasks.publishing.entry import TraceTarget, traces_of
from assizes.tasks.store import RunRecord
from assizes.tasks.trace_stores.address import is_trace_store, parse_address

_TARGET_TAGS = ("trace_id", "span_id", "session_id", "response_id")
_MAX_ID = 512  # characters of an id that a tag states


def place_of(config: PublishConfig, record: RunRecord) -> str:
    """The URI of the place: the configured one, else that of the transcripts of the run.

    Raises:
        ConfigurationError: the transcripts were read from files, and no place is configured.
    """
    source = str(record.config["transcripts"]["uri"])
    place = config.to or (source if is_trace_store(source) else None)
    if place is None:
        raise ConfigurationError(
            "[publish] to: not set, and the transcripts of the run were read from files; accepted: "
            "langfuse://project, mlflow://experiment, phoenix://project, otlp"
        )
    return place


def open_place(place: str) -> Destination:
    """Open a place; keys and the address of its server come from the environment.

    Raises:
        ConfigurationError: the place is none that takes scores, or a variable is missing.
    """
    if place == "otlp":
        from assizes.tasks.publishing.otlp import Otlp

        return Otlp()
    kind = place.partition("://")[0]
    if kind not in SCHEMES or kind == "otlp":
        accepted = [f"{name}://" for name in SCHEMES if name != "otlp"] + ["otlp"]
        raise ConfigurationError.unknown("place", place, accepted, "[publish] to")
    address = parse_address(place, "[publish] to")
    if kind == "langfuse":
        from assizes.tasks.publishing.langfuse import Langfuse

        return Langfuse()
    if kind == "mlflow":
        from assizes.tasks.publishing.mlflow import Mlflow

        return Mlflow(address.name)
    from assizes.tasks.publishing.phoenix import Phoenix

    return Phoenix(address.name)


def reopen_place(name: str) -> Destination:
    """The place that column `destination` of a delivery names, as the environment reaches it now.

    Raises:
        ConfigurationError: a variable of the environment is missing.
    """
    kind, _, rest = name.partition(" at ")
    if kind == "otlp":
        return open_place(kind)
    project = rest.partition(PROJECT)[2] or "any"  # only Phoenix deletes within a project
    return open_place(f"{kind}://{quote(project, safe='')}")


def given_target(case: dict[str, Any]) -> TraceTarget:
    """What a case says of itself: ids in its tags, else the trace, or the session, it was read from.

    The tags are `trace_id`, `span_id`, `session_id` and `response_id`.
    """
    tags = json.loads(case.get("tags") or "{}")
    ids = {name: str(tags[name])[:_MAX_ID] for name in _TARGET_TAGS if tags.get(name)}
    if ids or not (traces := traces_of(case)):
        return TraceTarget(**ids)
    # Several traces are one conversation, whose id is that of the case.
    return (
        TraceTarget(session_id=case["case_id"])
        if len(traces) > 1
        else TraceTarget(trace_id=traces[0])
    )
