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
from assizes.judge.evidence.steps import (
    AgentStep,
    found_items,
    json_value,
    requests,
    steps_of,
    steps_of_tools,
)
from assizes.judge.evidence.tool_calls import canonical_text
from assizes.judge.families.agent_steps.base_judge import EvaluationStrategy
from assizes.judge.families.agent_steps.step_scores import (
    RULES,
    StepFinding,
    StepJudge,
    StepOptions,
    StepReply,
    SubFinding,
    call_texts,
    finding_without_asks,
    is_null,
    reply_rule,
    short_texts,
    shown_steps,
    turns_of,
    weighted_finding,
)
from assizes.judge.prompts.sections import data_section, numbered_list
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


class SearchReply(StepReply):
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
    results: tuple[Any, ...]
    steps: tuple[AgentStep, ...]
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

    def missing_expectation(self, expected: Expected) -> str | None:
        """Runs where `search_results` is given; an empty list is given, a blank text is not."""
        value = expected.search_results
        is_given = value.strip() != "" if isinstance(value, str) else value is not None
        return None if is_given else "no expected.search_results"

    def evaluate(self, case: Case) -> Steps[StepFinding]:
        """`null` is judged on calls, an empty list on results, both by program; else one ask."""
        steps = steps_of_tools(steps_of(case.transcript), self.options.tools)
        results = tuple(item for step in steps for item in found_items(step))
        user_requests = requests(case.transcript)
        expected = case.expected.search_results
        expected_results = _expected_results(expected)
        details = {
            "question": user_requests[-1] if user_requests else "",
            "expected_results": "null" if is_null(expected) else short_texts(expected_results),
            "extracted_results": short_texts(results),
        }
        if is_null(expected):
            return finding_without_asks(_negative_case_finding(steps, details))
        if not expected_results:
            return finding_without_asks(_empty_search_finding(steps, results, details))
        if not steps:
            reason = f"no search: results expected, but none of {_tools(self.options)} was called"
            return finding_without_asks(StepFinding(0.0, reason, details))
        covered = (
            ()
            if isinstance(expected, str) and expected_results == (expected.strip(),)
            else _coverage_flags(expected_results, results)
        )
        return _ask_model(
            SearchEvidence(user_requests, expected_results, results, steps, covered), details
        )


def _expected_results(expected: str | Sequence[Any] | None) -> tuple[Any, ...]:
    """The expected results; a text that is a JSON list is that list, any other one description."""
    if isinstance(expected, str):
        value = json_value(expected)
        return tuple(value) if isinstance(value, list) else (expected.strip(),)
    return tuple(expected or ())


def _coverage_flags(expected_results: Sequence[Any], results: Sequence[Any]) -> tuple[bool, ...]:
    return tuple(
        any(_is_result(expected_result, item) for item in results)
        for expected_result in expected_results
    )


def _is_result(expected: Any, item: Any) -> bool:
    """True when an item is the expected one: equal, or holding it as a value or as whole words; an
    expected object is held when each of its values is.
    """
    if isinstance(expected, Mapping):
        if isinstance(item, Mapping):
            return all(
                canonical_text(item.get(k)) == canonical_text(v) for k, v in expected.items()
            )
        return all(_is_result(value, item) for value in expected.values())
    wanted = canonical_text(expected)
    if canonical_text(item) == wanted or any(
        canonical_text(leaf) == wanted for leaf in _leaves(item)
    ):
        return True
    words = re.escape(str(expected).strip().casefold())
    texts = [leaf.casefold() for leaf in _leaves(item) if isinstance(leaf, str)]
    return bool(words) and any(re.search(rf"(?<!\w){words}(?!\w)", text) for text in texts)


def _leaves(item: Any, depth: int = 0) -> list[Any]:
    if isinstance(item, Mapping | list) and depth < 8:
        values = item.values() if isinstance(item, Mapping) else item
        return [leaf for value in values for leaf in _leaves(value, depth + 1)]
    return [item]


def _negative_case_finding(steps: Sequence[AgentStep], details: dict[str, Any]) -> StepFinding:
    operations = call_texts(steps)
    if operations:
        return StepFinding(
            0.0,
            f"Should not search but did: {operations[0]}",
            details | {"operations": operations},
            turns=turns_of(steps),
        )
    return StepFinding(1.0, "Rightly did not search", details | {"operations": []})


def _empty_search_finding(
    steps: Sequence[AgentStep], results: Sequence[Any], details: dict[str, Any]
) -> StepFinding:
    if results:
        reason = f"Should find nothing but found: {short_texts(results)[0]}"
        return StepFinding(0.0, reason, details, turns=turns_of(steps))
    return StepFinding(1.0, "Rightly found nothing", details)


def _ask_model(evidence: SearchEvidence, details: dict[str, Any]) -> Steps[StepFinding]:
    reply = yield from ask(Prompt(SYSTEM, _user_message(evidence)), SearchReply, evidence)
    subs = {name: getattr(reply, name) for name in WEIGHTS}
    counted = {"counted_coverage": evidence.coverage}
    return weighted_finding(subs, WEIGHTS, details | counted, turns_of(evidence.steps))


def _user_message(evidence: SearchEvidence) -> str:
    expected = numbered_list(short_texts(evidence.expected))
    return "\n\n".join(
        [
            data_section("User requests", numbered_list(evidence.requests)),
            data_section("Expected results", expected),
            data_section("Agent's search calls", shown_steps(evidence.steps)),
            data_section("Counted coverage", _coverage_text(evidence)),
        ]
    )


def _coverage_text(evidence: SearchEvidence) -> str:
    if evidence.coverage is None:
        return "not counted: what is expected is described in words"
    missed = [
        result for result, hit in zip(evidence.expected, evidence.covered, strict=True) if not hit
    ]
    share = f"{sum(evidence.covered)} of {len(evidence.covered)} expected results found"
    more = f"; not found: {', '.join(short_texts(missed))}" if missed else ""
    return f"{share}, coverage {evidence.coverage:.2f}{more}"


def _tools(options: SearchOptions) -> str:
    return ", ".join(options.tools) or "no tool"
