"""The search judge (seed 002): did the agent's searches find what the request and the case need?

How many of the expected results were found is counted by program and shown to the model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from assizes.judge.case import Case, Expected
from assizes.judge.evidence.steps import Step, found_items, json_value, named, requests, steps_of
from assizes.judge.evidence.tool_calls import canonical
from assizes.judge.families.agent_steps.base_judge import EvaluationStrategy
from assizes.judge.families.agent_steps.step_scores import (
    RULES,
    Answer,
    Finding,
    StepJudge,
    StepOptions,
    SubFinding,
    called,
    is_null,
    listed,
    reply_rule,
    settled,
    shown_steps,
    turns_of,
    weighed,
)
from assizes.judge.prompts.sections import data_section, numbered
from assizes.judge.protocol import Prompt, Steps, ask

WEIGHTS: Final = {"relevance": 0.5, "coverage": 0.5}

SYSTEM: Final = f"""\
You judge the searches that an AI agent made for its user. You see the user's requests, what was expected to be found, and the agent's search calls with their results.

# Rules
{RULES}
- relevance: how far the results found answer the requests. Results that have nothing to do with them lower it.
- coverage: the share of the expected results that were found. Names may be written differently. Where a counted coverage is given, leave it only for a result that the count took for another.

{reply_rule(*WEIGHTS)}"""


class SearchOptions(StepOptions):
    """Options of the search judge."""

    threshold: float = Field(default=0.6, ge=0, le=1, description="score that passes, inclusive")
    tools: tuple[str, ...] = Field(
        default=("product_search", "similar_products"), description="tools that search"
    )


class SearchReply(Answer):
    """What the model replies."""

    relevance: SubFinding
    coverage: SubFinding


@dataclass(frozen=True, slots=True)
class SearchEvidence:
    """What the search judge asks about.

    `expected` holds the results that were due, or one description in words; `covered` says of each
    whether it was found, and is empty for a description.
    """

    requests: tuple[str, ...]
    expected: tuple[Any, ...]
    found: tuple[Any, ...]
    steps: tuple[Step, ...]
    covered: tuple[bool, ...]

    @property
    def coverage(self) -> float | None:
        """The share of the expected results that were found; null where it cannot be counted."""
        return math.fsum(self.covered) / len(self.covered) if self.covered else None


class SearchJudge(StepJudge):
    """Judges what the agent's searches returned by relevance and coverage."""

    name = "search"
    strategy = EvaluationStrategy.SINGLE_STEP
    needs = ("expected.search_results",)
    description = "Mean of relevance and coverage of what the agent's searches returned."
    prompts = (SYSTEM,)
    options: SearchOptions

    def unspecified(self, expected: Expected) -> str | None:
        """Runs where `search_results` is given; an empty list is given, a blank text is not."""
        value = expected.search_results
        given = value.strip() != "" if isinstance(value, str) else value is not None
        return None if given else "no expected.search_results"

    def found(self, case: Case) -> Steps[Finding]:
        """`null` is judged on calls, an empty list on results, both by program; else one ask."""
        steps = named(steps_of(case.transcript), self.options.tools)
        found = tuple(item for step in steps for item in found_items(step))
        asked = requests(case.transcript)
        expected = case.expected.search_results
        due = _due(expected)
        details = {
            "question": asked[-1] if asked else "",
            "expected_results": "null" if is_null(expected) else listed(due),
            "extracted_results": listed(found),
        }
        if is_null(expected):
            return settled(_refrained(steps, details))
        if not due:
            return settled(_found_nothing(steps, found, details))
        if not steps:
            reason = f"no search: results expected, but none of {_tools(self.options)} was called"
            return settled(Finding(0.0, reason, details))
        covered = (
            () if isinstance(expected, str) and due == (expected.strip(),) else _covered(due, found)
        )
        return _asked(SearchEvidence(asked, due, found, steps, covered), details)


def _due(expected: str | Sequence[Any] | None) -> tuple[Any, ...]:
    """The expected results; a text that is a JSON list is that list, any other one description."""
    if isinstance(expected, str):
        value = json_value(expected)
        return tuple(value) if isinstance(value, list) else (expected.strip(),)
    return tuple(expected or ())


def _covered(due: Sequence[Any], found: Sequence[Any]) -> tuple[bool, ...]:
    return tuple(any(_is_result(one, item) for item in found) for one in due)


def _is_result(due: Any, item: Any) -> bool:
    """True when an item is the expected one: equal, or holding it as a value or as whole words; an
    expected object is held when each of its values is.
    """
    if isinstance(due, Mapping):
        if isinstance(item, Mapping):
            return all(canonical(item.get(k)) == canonical(v) for k, v in due.items())
        return all(_is_result(value, item) for value in due.values())
    wanted = canonical(due)
    if canonical(item) == wanted or any(canonical(leaf) == wanted for leaf in _leaves(item)):
        return True
    words = re.escape(str(due).strip().casefold())
    texts = [leaf.casefold() for leaf in _leaves(item) if isinstance(leaf, str)]
    return bool(words) and any(re.search(rf"(?<!\w){words}(?!\w)", text) for text in texts)


def _leaves(item: Any, depth: int = 0) -> list[Any]:
    if isinstance(item, Mapping | list) and depth < 8:
        values = item.values() if isinstance(item, Mapping) else item
        return [leaf for value in values for leaf in _leaves(value, depth + 1)]
    return [item]


def _refrained(steps: Sequence[Step], details: dict[str, Any]) -> Finding:
    operations = called(steps)
    if operations:
        return Finding(
            0.0,
            f"Should not search but did: {operations[0]}",
            details | {"operations": operations},
            turns=turns_of(steps),
        )
    return Finding(1.0, "Rightly did not search", details | {"operations": []})


def _found_nothing(steps: Sequence[Step], found: Sequence[Any], details: dict[str, Any]) -> Finding:
    if found:
        reason = f"Should find nothing but found: {listed(found)[0]}"
        return Finding(0.0, reason, details, turns=turns_of(steps))
    return Finding(1.0, "Rightly found nothing", details)


def _asked(evidence: SearchEvidence, details: dict[str, Any]) -> Steps[Finding]:
    reply = yield from ask(Prompt(SYSTEM, _user_message(evidence)), SearchReply, evidence)
    subs = {name: getattr(reply, name) for name in WEIGHTS}
    counted = {"counted_coverage": evidence.coverage}
    return weighed(subs, WEIGHTS, details | counted, turns_of(evidence.steps))


def _user_message(evidence: SearchEvidence) -> str:
    expected = numbered(listed(evidence.expected))
    return "\n\n".join(
        [
            data_section("User requests", numbered(evidence.requests)),
            data_section("Expected results", expected),
            data_section("Agent's search calls", shown_steps(evidence.steps)),
            data_section("Counted coverage", _coverage_text(evidence)),
        ]
    )


def _coverage_text(evidence: SearchEvidence) -> str:
    if evidence.coverage is None:
        return "not counted: what is expected is described in words"
    missed = [one for one, hit in zip(evidence.expected, evidence.covered, strict=True) if not hit]
    share = f"{sum(evidence.covered)} of {len(evidence.covered)} expected results found"
    more = f"; not found: {', '.join(listed(missed))}" if missed else ""
    return f"{share}, coverage {evidence.coverage:.2f}{more}"


def _tools(options: SearchOptions) -> str:
    return ", ".join(options.tools) or "no tool"
