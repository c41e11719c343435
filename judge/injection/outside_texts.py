"""The texts of a case that come from outside, and so may hold an attack on the judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from assizes.judge.case import Case, ToolCall


class OutsideText(NamedTuple):
    """A text, and where in its case it stands."""

    place: str  # such as `turn 3` or `metadata`
    text: str
    by_agent: bool = False


def outside_texts(case: Case) -> Iterator[OutsideText]:
    """Yield the texts of each place; what a turn says is one text, so is what it was given."""
    transcript = case.transcript
    for index, turn in enumerate(transcript.turns):
        spoken: list[str] = [turn.text or ""]
        results: list[str] = []
        for call in turn.tool_calls:
            spoken += _call(call)
            results += _results(call)
        if (result := turn.tool_result) is not None:
            results += [result.content, result.call_id or "", result.name or ""]
        for chunk in turn.chunks or ():
            results += [chunk.content, chunk.doc_uri or ""]
        place, by_agent = f"turn {index}", turn.role == "assistant"
        yield OutsideText(place, "\n".join(filter(None, spoken)), by_agent)
        yield OutsideText(place, "\n".join(filter(None, results)))
    chunks = [
        text for chunk in transcript.chunks or () for text in (chunk.content, chunk.doc_uri or "")
    ]
    yield OutsideText("retrieved context", "\n".join(chunks))
    tools = [text for tool in transcript.tools for text in (tool.name, tool.description)]
    yield OutsideText("agent setup", "\n".join((transcript.system or "", *tools)))
    ids = (case.case_id, case.agent or "", case.agent_version or "", case.cluster or "")
    yield OutsideText("ids", "\n".join(ids))
    yield OutsideText(
        "expected", "\n".join(_strings(case.expected.model_dump(exclude_defaults=True)))
    )
    yield OutsideText("metadata", "\n".join(_strings([case.tags, case.metadata])))


def _call(call: ToolCall) -> Iterator[str]:
    yield from (call.name, call.id or "", call.raw or "")
    yield from _strings(call.arguments)
    for inner in call.tool_calls:
        yield from _call(inner)


def _results(call: ToolCall) -> Iterator[str]:
    yield call.result or ""
    for inner in call.tool_calls:
        yield from _results(inner)


def _strings(value: Any) -> Iterator[str]:
    """Yield the texts in nested data, and also the names of members."""
    pending = [value]  # a stack, as hostile data may be nested deeper than calls can be
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from map(str, item)
            pending.extend(reversed(list(item.values())))
        elif isinstance(item, list | tuple):
            pending.extend(reversed(item))
