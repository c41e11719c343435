"""The search judge (seed 002): did the agent's searches find what the user and the case ask for?

Code counts how many of the expected results were found; the model reads that count as a fact.
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
    is_null,
    negative_case_finding,
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
    """The facts of the search judge's ask.

    `expected` holds the expected results, or one description of them in words. `covered` says for
    each expected result whether it was found; it is empty for a description.
    """

    requests: tuple[str, ...]
    expected: tuple[Any, ...]
    results: tuple[Any, ...]
    steps: tuple[AgentStep, ...]
    covered: tuple[bool, ...]

    @property
    def coverage(self) -> float | None:
        """The share 0..1 of the expected results that were found; `None` for a description."""
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
        """The judge needs `expected.search_results`: a list, also an empty one, or a text."""
        value = expected.search_results
        is_given = value.strip() != "" if isinstance(value, str) else value is not None
        return None if is_given else "no expected.search_results"

    def evaluate(self, case: Case) -> Steps[StepFinding]:
        """One ask, unless code decides: `null` forbids searches, an empty list forbids results."""
        steps = steps_of_tools(steps_of(case.transcript), self.options.tools)
        results = tuple(item for step in steps for item in found_items(step))
        user_requests = requests(case.transcript)
        expected = case.expected.search_results
        expected_results = _expected_results(expected)
        details: dict[str, Any] = {
            "question": user_requests[-1] if user_requests else "",
            "expected_results": "null" if is_null(expected) else short_texts(expected_results),
            "extracted_results": short_texts(results),
        }
        if is_null(expected):
            return negative_case_finding(
                steps,
                call_texts(steps),
                details,
                fault="Should not search but did",
                merit="Rightly did not search",
            )
        if not expected_results:
            return _empty_search_finding(steps, results, details)
        if not steps:
            tools = ", ".join(self.options.tools) or "no tool"
            reason = f"no search: results expected, but none of {tools} was called"
            return StepFinding(0.0, reason, details)
        described = isinstance(expected, str) and expected_results == (expected.strip(),)
        covered = () if described else _coverage_flags(expected_results, results)
        evidence = SearchEvidence(user_requests, expected_results, results, steps, covered)
        reply = yield from ask(Prompt(SYSTEM, _user_message(evidence)), SearchReply, evidence)
        details["counted_coverage"] = evidence.coverage
        return weighted_finding(reply, WEIGHTS, details, turns_of(steps))


def _expected_results(expected: str | Sequence[Any] | None) -> tuple[Any, ...]:
    """The expected results: the list, also where a text holds it as JSON; else one description."""
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
    """Whether an item of the agent's results is an expected result.

    The item is equal to it, or holds it as a value or as whole words. Of an expected object the
    item must hold every value, under the same keys where the item is an object too.
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
    """The values inside an item, through at most 8 levels: a tool result may nest without end."""
    if isinstance(item, Mapping | list) and depth < 8:
        values = item.values() if isinstance(item, Mapping) else item
        return [leaf for value in values for leaf in _leaves(value, depth + 1)]
    return [item]


def _empty_search_finding(
    steps: Sequence[AgentStep], results: Sequence[Any], details: dict[str, Any]
) -> StepFinding:
    if results:
        reason = f"Should find nothing but found: {short_texts(results)[0]}"
        return StepFinding(0.0, reason, details, turns=turns_of(steps))
    return StepFinding(1.0, "Rightly found nothing", details)


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
