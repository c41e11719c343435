"""Finds prompt injection: texts of a case that address the judge, or hide what they say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from assizes.judge.case import Case, ToolCall
from assizes.judge.injection.disguises import TextShape
from assizes.judge.injection.families import disguise_names, family_names, matching_families
from assizes.judge.injection.invisible import hidden_count

INJECTION: Final = "injection:"
"""The prefix of the flag of an attack family: `injection:ignore_instructions`."""

DISGUISED: Final = "disguised:"
"""The prefix of the flag of a disguised attack, followed by the disguise: `disguised:base64`."""

HIDDEN_TEXT: Final = "hidden_text"
"""The flag of a text with so many hidden characters that they can spell words."""

MOST_HIDDEN: Final = 12
"""The most hidden characters of one text that count as an accident."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One sign of an attack, and the first place that shows it, such as `turn 3` or `metadata`."""

    name: str
    place: str


def flags(case: Case) -> tuple[Flag, ...]:
    """The signs of attacks in the texts of a case, each kind once, in alphabetical order.

    All texts that come from outside are searched, also ids and names, whether a prompt shows them
    or not. The exception is `evaluation_criteria_override`, which is meant to address the judge.
    """
    # One search over all texts together first: most cases hold no attack, and need no more.
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
    """Yield each place with its text; a turn is one text, as its parts may share a sentence."""
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
    """Yield the texts in nested data, and also the names of members."""
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
