"""What an obedient model answers: a JSON schema filled by rule.

A number is 4 (held to the schema's bounds), another choice its first value, a truth value true,
null where null is allowed, a text "ok", an array empty, except `expected_outcomes`, which repeats
the statements listed in the user message. A top-level `reply_id` repeats the last line
`Reply id: <hex>` of the user message.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Json = dict[str, Any]

REPLY_ID = re.compile(r"^Reply id: ([0-9a-f]+)", re.MULTILINE)
REPLY_ID_LINE = "Reply id: "
PLACE_OF_REPLY_ID = "<<reply id>>"
OUTCOMES_HEADING = re.compile(r"<data: expected outcomes>", re.IGNORECASE)
STATEMENT = re.compile(r"(\d+)\. (.*)")
ASPECT = re.compile(r"(a\d+): ")
CONCEPT = re.compile(r"\s+(a\d+)(c\d+): ")


def statements(prompt: str) -> list[tuple[int, str]]:
    """The numbered list in the section of the expected outcomes; indented lines go on."""
    lines = iter(prompt.splitlines())
    found: list[tuple[int, str]] = []
    if not any(OUTCOMES_HEADING.match(line) for line in lines):
        return found
    for line in lines:
        if line.startswith("</data"):
            break
        if item := STATEMENT.fullmatch(line):
            found.append((int(item[1]), item[2]))
        elif found:
            number, begun = found[-1]
            found[-1] = (number, f"{begun}\n{line.removeprefix('  ')}")
    return found


def concept_ids(prompt: str) -> dict[str, list[str]]:
    """The numbered aspects of a prompt with the ids of their concepts: `a1: ...`, `  a1c1: ...`."""
    found: dict[str, list[str]] = {}
    for line in prompt.splitlines():
        if item := ASPECT.match(line):
            found[item[1]] = []
        elif (item := CONCEPT.match(line)) and item[1] in found:
            found[item[1]].append(item[1] + item[2])
    return found


def open_criteria(prompt: str) -> tuple[int, ...]:
    """The numbers of the criteria of a prompt of `run_criteria` that are not settled."""
    _, heading, rest = prompt.partition("<data: Criteria>\n")
    lines = rest.partition("</data")[0].splitlines() if heading else []
    return tuple(
        int(line.partition(". ")[0]) for line in lines if "(settled: " not in line and ". " in line
    )


def reply_id(prompt: str) -> str:
    """The id that the last `Reply id:` line of a prompt holds, else `unknown`."""
    # Not one findall: it walks every line of a long prompt, and this runs for each request.
    end = len(prompt)
    while (at := prompt.rfind(REPLY_ID_LINE, 0, end)) >= 0:
        if found := REPLY_ID.match(prompt, at):
            return found[1]
        end = at
    return "unknown"


@dataclass(frozen=True)
class Filler:
    """Fills one JSON schema; `number` is the number it likes."""

    root: Json
    outcomes: list[tuple[int, str]]
    aspects: dict[str, list[str]]
    number: int = 4
    criteria: tuple[int, ...] = ()

    def filled(self, schema: Json | None = None, name: str = "") -> Any:
        schema = self.resolved(self.root if schema is None else schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.number if self.number in schema["enum"] else schema["enum"][0]
        kind = schema.get("type")
        kinds = kind if isinstance(kind, list) else [kind]
        if "null" in kinds:
            return None
        return self.of_kind(kinds[0], schema, name)

    def of_kind(self, kind: str | None, schema: Json, name: str) -> Any:
        if kind == "object":
            properties = schema.get("properties", {})
            return {key: self.filled(value, key) for key, value in properties.items()}
        if kind == "array":
            return self.array(schema, name)
        if kind in ("integer", "number"):
            number = self.number
            return min(max(number, schema.get("minimum", number)), schema.get("maximum", number))
        return True if kind == "boolean" else "ok"

    def array(self, schema: Json, name: str) -> list[Any]:
        items = schema.get("items", {})
        if "outcomes" in name and self.outcomes:
            return [self.outcome(items, *one) for one in self.outcomes]
        if name == "aspects":
            return self.covered(items)
        if name == "findings" and self.criteria:
            return [
                {**self.filled(items), "criterion": number, "holds": "no", "quotes": []}
                for number in self.criteria
            ]
        return [self.filled(items) for _ in range(schema.get("minItems", 0))]

    def covered(self, items: Json) -> list[Any]:
        """Every aspect asked about, all of it covered; asked to name aspects, one."""
        if not self.aspects:
            return [{**self.filled(items), "concepts": ["ok"]}]
        return [
            {**self.filled(items), "id": aspect, "concepts_covered": concepts}
            for aspect, concepts in self.aspects.items()
        ]

    def outcome(self, items: Json, number: int, statement: str) -> Json:
        about = {"statement": statement, "outcome": statement, "index": number, "number": number}
        return {key: about.get(key, value) for key, value in self.filled(items).items()}

    def resolved(self, schema: Json) -> Json:
        while "$ref" in schema:
            target: Any = self.root
            for step in schema["$ref"].removeprefix("#/").split("/"):
                target = target[step]
            schema = target
        choices = schema.get("anyOf") or schema.get("oneOf")
        if not choices:
            return schema
        nullable = [one for one in choices if one.get("type") == "null"]
        return self.resolved((nullable or choices)[0])


def answer_text(schema: bytes | None, prompt: str, *, echo: bool = True, number: int = 4) -> str:
    """The JSON text that fits a schema (given as JSON), or "ok" without one.

    Args:
        schema: the schema as JSON text; texts seen before are not walked again.
        prompt: the user message.
        echo: whether expected outcomes in the prompt are repeated.
        number: what numbers and numbered choices are filled with.
    """
    if schema is None:
        return "ok"
    outcomes = statements(prompt) if echo and b"outcomes" in schema else []
    aspects = concept_ids(prompt) if b'"aspects"' in schema else {}
    criteria = open_criteria(prompt) if b'"criterion"' in schema else ()
    if outcomes or aspects or criteria:
        text = _text(Filler(json.loads(schema), outcomes, aspects, number, criteria))
    else:
        text = _plain_text(schema, number)
    if PLACE_OF_REPLY_ID not in text:
        return text
    return text.replace(PLACE_OF_REPLY_ID, reply_id(prompt), 1)


@lru_cache(maxsize=1024)
def _plain_text(schema: bytes, number: int) -> str:
    return _text(Filler(json.loads(schema), [], {}, number))


def _text(filler: Filler) -> str:
    filled = filler.filled()
    if isinstance(filled, dict) and "reply_id" in filled:
        filled["reply_id"] = PLACE_OF_REPLY_ID
    return json.dumps(filled)
