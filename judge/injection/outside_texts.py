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
    """Yield the texts of each place; what a turn says is one text, so is what it was given.

    A turn without one of them has no such text.
    """
    transcript = case.transcript
    for index, turn in enumerate(transcript.turns):
        spoken = [turn.text] if turn.text else []
        results: list[str] = []
        for call in turn.tool_calls:
            spoken += filter(None, _call(call))
            results += filter(None, _results(call))
        if (result := turn.tool_result) is not None:
            results += filter(None, (result.content, result.call_id, result.name))
        for chunk in turn.chunks or ():
            results += filter(None, (chunk.content, chunk.doc_uri))
        if spoken:
            yield OutsideText(f"turn {index}", "\n".join(spoken), turn.role == "assistant")
        if results:
            yield OutsideText(f"turn {index}", "\n".join(results))
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


def _call(call: ToolCall) -> list[str]:
    texts = [call.name, call.id or "", call.raw or "", *_strings(call.arguments)]
    for inner in call.tool_calls:
        texts += _call(inner)
    return texts


def _results(call: ToolCall) -> list[str]:
    texts = [call.result or ""]
    for inner in call.tool_calls:
        texts += _results(inner)
    return texts


def _strings(value: Any) -> list[str]:
    """The texts in nested data, and also the names of members."""
    texts: list[str] = []
    pending = [value]  # a stack, as hostile data may be nested deeper than calls can be
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, dict):
            texts += map(str, item)
            pending += reversed(item.values())
        elif isinstance(item, list | tuple):
            pending += reversed(item)
    return texts
