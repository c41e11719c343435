"""Where in a case somebody speaks to the judge, or hides what he says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from assizes.judge.case import Case, ToolCall
from assizes.judge.injection.disguises import TextShape
from assizes.judge.injection.families import disguise_names, family_names, matching_families
from assizes.judge.injection.invisible import hidden_count

INJECTION: Final = "injection:"
"""Begins the flag of a family: `injection:ignore_instructions`."""

DISGUISED: Final = "disguised:"
"""Begins the flag of a family that speaks under a disguise: `disguised:base64`."""

HIDDEN_TEXT: Final = "hidden_text"
"""Flag of a text with so many hidden characters that they can hold words."""

MOST_HIDDEN: Final = 12
"""Hidden characters of one text that are taken for an accident."""


@dataclass(frozen=True, slots=True)
class Flag:
    """What was found, and the first place it was found at: `turn 3`, `expected`, `metadata`."""

    name: str
    place: str


def flags(case: Case) -> tuple[Flag, ...]:
    """What is found in the texts of a case, each kind once, in alphabetical order.

    Every text is looked at that comes from outside, ids and names too, whether a prompt shows it
    or not. The test author's own emphasis is not: it is there to speak to the judge.
    """
    texts = {text: place for place, text in reversed(list(_texts(case))) if text}
    whole = "\n".join(texts)
    shape = TextShape.of(whole)
    among, disguises = matching_families(whole, shape), any(disguise_names(whole, shape))
    hidden = hidden_count(whole) if shape.hidden else 0
    places: dict[str, str] = {}
    for text, place in reversed(texts.items()):
        names = [f"{INJECTION}{name}" for name in family_names(text, among)] if among else []
        names += [f"{DISGUISED}{name}" for name in disguise_names(text)] if disguises else []
        names += [HIDDEN_TEXT] if hidden > MOST_HIDDEN < hidden_count(text) else []
        for name in names:
            places.setdefault(name, place)
    return tuple(Flag(name, place) for name, place in sorted(places.items()))


def _texts(case: Case) -> Iterator[tuple[str, str]]:
    """Each place with its text; one a turn, for a sentence may be cut between its parts."""
    transcript = case.transcript
    for index, turn in enumerate(transcript.turns):
        parts = [turn.text or "", *(part for call in turn.tool_calls for part in _call(call))]
        if (result := turn.tool_result) is not None:
            parts += [result.content, result.call_id or "", result.name or ""]
        parts += [
            text for chunk in turn.chunks or () for text in (chunk.content, chunk.doc_uri or "")
        ]
        yield f"turn {index}", "\n".join(part for part in parts if part)
    chunks = [
        text for chunk in transcript.chunks or () for text in (chunk.content, chunk.doc_uri or "")
    ]
    yield "retrieved context", "\n".join(chunks)
    tools = [text for tool in transcript.tools for text in (tool.name, tool.description)]
    yield "agent setup", "\n".join((transcript.system or "", *tools))
    yield (
        "ids",
        "\n".join((case.case_id, case.agent or "", case.agent_version or "", case.cluster or "")),
    )
    yield "expected", "\n".join(_strings(case.expected.model_dump(exclude_defaults=True)))
    yield "metadata", "\n".join(_strings([case.tags, case.metadata]))


def _call(call: ToolCall) -> Iterator[str]:
    yield from (call.name, call.id or "", call.raw or "", call.result or "")
    yield from _strings(call.arguments)
    for inner in call.tool_calls:
        yield from _call(inner)


def _strings(value: Any) -> Iterator[str]:
    """The texts in nested data, names of members too, a line each."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from map(str, item)
            pending.extend(reversed(list(item.values())))
        elif isinstance(item, list | tuple):
            pending.extend(reversed(item))
