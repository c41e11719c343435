"""The judges of searches and of charts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from assizes.judge.case import Case, Expected
from assizes.judge.evidence.same_values import canonical_text
from assizes.judge.evidence.step_kinds import (
    chart_steps,
    chart_type,
    found_items,
    is_same_chart,
    search_steps,
)
from assizes.judge.evidence.steps import AgentStep, json_value, requests, steps_of
from assizes.judge.families.agent_steps import step_scores
from assizes.judge.families.agent_steps.base_judge import EvaluationStrategy
from assizes.judge.families.agent_steps.step_scores import (
    StepFinding,
    StepJudge,
    StepOptions,
    StepReply,
    SubFinding,
)
from assizes.judge.prompts.prompt_texts import numbered_list
from assizes.judge.protocol import Steps

_SEARCH_WEIGHTS: Final = {"relevance": 0.5, "coverage": 0.5}

_SEARCH_SYSTEM: Final = f"""\
You judge the searches that an AI agent made for its user. You see the user's requests, what was expected to be found, and the agent's search calls with their results.

# Rules
{step_scores.RULES}
- relevance: how far the results found answer the requests. Results that have nothing to do with them lower it.
- coverage: the share of the expected results that were found. Names may be written differently. Where a counted coverage is given, leave it only for a result that the count took for another.

{step_scores.reply_rule(*_SEARCH_WEIGHTS)}"""


class SearchOptions(StepOptions):
    """Options of the search judge."""

    threshold: float = Field(
        default=0.6, ge=0, le=1, description="The score from which a case passes."
    )
    tools: tuple[str, ...] = Field(
        default=(),
        description="The tools that search. Empty: they are recognised by what they take and "
        "return, and by their names.",
    )


class SearchReply(StepReply):
    """What the model replies."""

    relevance: SubFinding
    coverage: SubFinding


@dataclass(frozen=True, slots=True)
class SearchEvidence:
    """The facts of the search judge's ask."""

    requests: tuple[str, ...]
    expected: tuple[Any, ...]  # results, or one description in words
    results: tuple[Any, ...]
    steps: tuple[AgentStep, ...]
    covered: tuple[bool, ...]  # whether each was found; empty for a description

    @property
    def coverage(self) -> float | None:
        """The share 0..1 of the expected results that were found; `None` for a description."""
        return math.fsum(self.covered) / len(self.covered) if self.covered else None


class SearchJudge(StepJudge):
    """Judges what the agent's searches returned by relevance and coverage."""

    name = "search"
    version = "3"  # goes up with the rules
    strategy = EvaluationStrategy.SINGLE_STEP
    needs = ("expected.search_results",)
    description = "Mean of relevance and coverage of what the agent's searches returned."
    prompts = (_SEARCH_SYSTEM,)
    reply = SearchReply
    weights = _SEARCH_WEIGHTS
    options: SearchOptions

    def missing_expectation(self, expected: Expected) -> str | None:
        """The reason to skip a case without `expected.search_results`; else `None`.

        An empty list is a value: nothing must be found. A blank text is none.
        """
        return None if _is_given(expected.search_results) else "no expected.search_results"

    def missing(self, case: Case) -> str | None:
        """A case is skipped, too, in which an outage prevented every search for what is expected."""
        expected = case.expected.search_results
        steps = search_steps(steps_of(case.transcript), self.options.tools)
        if not _expected_results(expected) or step_scores.is_null(expected) or not steps:
            return super().missing(case)
        is_lost = all(step.prevented for step in steps)
        return "an outage prevented every search" if is_lost else super().missing(case)

    def evaluate(self, case: Case) -> Steps[StepFinding]:
        """One ask, unless code decides: `null` forbids searches, an empty list forbids results."""
        called = steps_of(case.transcript)
        steps = search_steps(called, self.options.tools)
        finding = yield from self._finding(case, steps)
        return step_scores.name_tools(finding, steps, called)

    def _finding(self, case: Case, steps: tuple[AgentStep, ...]) -> Steps[StepFinding]:
        results = tuple(item for step in steps for item in found_items(step))
        user_requests = requests(case.transcript)
        expected = case.expected.search_results
        expected_results = _expected_results(expected)
        details: dict[str, Any] = {
            "question": user_requests[-1] if user_requests else "",
            "expected_results": "null"
            if step_scores.is_null(expected)
            else step_scores.short_texts(expected_results),
            "extracted_results": step_scores.short_texts(results),
        }
        if step_scores.is_null(expected):
            return step_scores.negative_case_finding(
                steps,
                step_scores.call_texts(steps),
                details,
                fault="Should not search but did",
                merit="Rightly did not search",
            )
        if not expected_results and results:
            reason = f"Should find nothing but found: {details['extracted_results'][0]}"
            return StepFinding(0.0, reason, details, turns=step_scores.turns_of(steps))
        if not expected_results:
            return StepFinding(1.0, "Rightly found nothing", details)
        if not steps:
            return step_scores.uncalled_finding("no search: results", self.options.tools, details)
        # A text that holds no JSON list describes in words, which code cannot count.
        described = isinstance(expected, str) and expected_results == (expected.strip(),)
        # Code counts; the model reads the count as a fact.
        flags = [any(_is_result(value, item) for item in results) for value in expected_results]
        covered = () if described else tuple(flags)
        evidence = SearchEvidence(user_requests, expected_results, results, steps, covered)
        details["counted_coverage"] = evidence.coverage
        sections = (
            ("User requests", numbered_list(user_requests)),
            ("Expected results", numbered_list(step_scores.short_texts(expected_results))),
            ("Agent's search calls", step_scores.shown_steps(steps)),
            ("Counted coverage", _coverage_text(evidence)),
        )
        counted = {} if evidence.coverage is None else {"coverage": evidence.coverage}
        counted |= {} if results else {"relevance": 0.0}
        return (yield from self._ask_model(evidence, sections, details, steps, counted))


def _is_given(value: object) -> bool:
    """Whether an expected value is one: a blank text is none, an empty list is."""
    return value.strip() != "" if isinstance(value, str) else value is not None


def _expected_results(expected: str | Sequence[Any] | None) -> tuple[Any, ...]:
    """The expected results: the list, also where a text holds it as JSON; else one description."""
    if isinstance(expected, str):
        value = json_value(expected)
        return tuple(value) if isinstance(value, list) else (expected.strip(),)
    return tuple(expected or ())


def _is_result(expected: Any, item: Any) -> bool:
    """Whether an item equals an expected result, or holds it as a value or as whole words."""
    # Of an expected object all values must be there, in an object under the same keys.
    if isinstance(expected, Mapping):
        if isinstance(item, Mapping):
            pairs = ((item.get(key), value) for key, value in expected.items())
            return all(canonical_text(actual) == canonical_text(due) for actual, due in pairs)
        return all(_is_result(value, item) for value in expected.values())
    wanted, leaves = canonical_text(expected), _leaves(item)
    if any(canonical_text(value) == wanted for value in (item, *leaves)):
        return True
    # Lookarounds, as `\b` wants a word character at both ends, unlike "C++". "" is in any text.
    words = re.escape(str(expected).strip().casefold())
    texts = [leaf.casefold() for leaf in leaves if isinstance(leaf, str)]
    return bool(words) and any(re.search(rf"(?<!\w){words}(?!\w)", text) for text in texts)


def _leaves(item: Any, depth: int = 0) -> list[Any]:
    """The values inside an item, through at most 8 levels: a tool result may nest without end."""
    if isinstance(item, Mapping | list) and depth < 8:
        values = item.values() if isinstance(item, Mapping) else item
        return [leaf for value in values for leaf in _leaves(value, depth + 1)]
    return [item]


def _coverage_text(evidence: SearchEvidence) -> str:
    if evidence.coverage is None:
        return "not counted: what is expected is described in words"
    pairs = zip(evidence.expected, evidence.covered, strict=True)
    missed = [result for result, is_covered in pairs if not is_covered]
    share = f"{sum(evidence.covered)} of {len(evidence.covered)} expected results found"
    more = f"; not found: {', '.join(step_scores.short_texts(missed))}" if missed else ""
    return f"{share}, coverage {evidence.coverage:.2f}{more}"


_CHART_WEIGHTS: Final = {"appropriateness": 0.5, "chart_type": 0.5}

ANY: Final = "any"
"""The expected kind of chart where the case names none."""

CONFLICT: Final = "has_chart says no chart, chart_type names one: judged as no chart"
"""Warning in the details of a score whose expected values contradict each other."""

_CHART_SYSTEM: Final = f"""\
You judge the charts that an AI agent made for its user. You see the user's requests, the expected kind of chart, and the agent's chart calls.

# Rules
{step_scores.RULES}
- appropriateness: whether a chart helps with the requests, and shows the data that were asked for.
- chart_type: whether the kind of chart is the expected one; with "{ANY}", whether it suits the data, e.g. a line for a course over time, bars for a comparison, a pie for shares of a whole.

{step_scores.reply_rule(*_CHART_WEIGHTS)}"""


class VisualizationOptions(StepOptions):
    """Options of the visualization judge."""

    tools: tuple[str, ...] = Field(
        default=(),
        description="The tools that make charts. Empty: they are recognised by what they take and "
        "return, and by their names.",
    )


class VisualizationReply(StepReply):
    """What the model replies."""

    appropriateness: SubFinding
    chart_type: SubFinding


@dataclass(frozen=True, slots=True)
class VisualizationEvidence:
    """The facts of the visualization judge's ask."""

    requests: tuple[str, ...]
    expected_type: str  # `ANY`, or the kind that the case names
    steps: tuple[AgentStep, ...]
    chart_types: tuple[str | None, ...]  # of charts without an error; `None`: not named

    @property
    def as_expected(self) -> bool | None:
        """Whether a chart of the expected kind was made; `None` where any kind is accepted."""
        if self.expected_type == ANY:
            return None
        return any(is_same_chart(kind, self.expected_type) for kind in self.chart_types)


class VisualizationJudge(StepJudge):
    """Judges whether and how the agent made charts."""

    name = "visualization"
    version = "3"  # goes up with the rules
    strategy = EvaluationStrategy.SINGLE_STEP
    needs = ("expected.has_chart or expected.chart_type",)
    description = "Mean of appropriateness and chart type of the agent's charts."
    prompts = (_CHART_SYSTEM,)
    reply = VisualizationReply
    weights = _CHART_WEIGHTS
    options: VisualizationOptions

    def missing_expectation(self, expected: Expected) -> str | None:
        """The reason to skip a case without `has_chart` and `chart_type`; a blank text is none."""
        has_expectation = any(map(_is_given, (expected.has_chart, expected.chart_type)))
        return None if has_expectation else "neither expected.has_chart nor expected.chart_type"

    def evaluate(self, case: Case) -> Steps[StepFinding]:
        """One ask; where no chart is expected, or none was made, code decides without a model."""
        called = steps_of(case.transcript)
        steps = chart_steps(called, self.options.tools)
        finding = yield from self._finding(case, steps)
        return step_scores.name_tools(finding, steps, called)

    def _finding(self, case: Case, steps: tuple[AgentStep, ...]) -> Steps[StepFinding]:
        user_requests = requests(case.transcript)
        kind = (case.expected.chart_type or ANY).strip() or ANY
        made_or_prevented = (step for step in steps if step.prevented or not step.failed)
        chart_types = tuple(map(chart_type, made_or_prevented))
        wanted = _is_chart_expected(case.expected)
        details: dict[str, Any] = {
            "question": user_requests[-1] if user_requests else "",
            "expected_has_chart": wanted,
            "expected_chart_type": kind,
            "extracted_has_chart": bool(steps),
            "extracted_chart_type": next(filter(None, chart_types), None),
        }
        if not wanted:
            if kind != ANY and not step_scores.is_null(kind):
                details["warnings"] = [CONFLICT]
            return step_scores.negative_case_finding(
                steps,
                step_scores.call_texts(steps),
                details,
                fault="Should not make a chart but did",
                merit="Rightly made no chart",
            )
        if not steps:
            return step_scores.uncalled_finding("no chart: one", self.options.tools, details)
        evidence = VisualizationEvidence(user_requests, kind, steps, chart_types)
        made = ", ".join(name or "not said" for name in chart_types) or "none without an error"
        words = {True: "yes", False: "no", None: "any kind will do"}[evidence.as_expected]
        sections = (
            ("User requests", numbered_list(user_requests)),
            ("Expected kind of chart", kind),
            ("Agent's chart calls", step_scores.shown_steps(steps)),
            ("Kinds of chart made", f"{made}; the expected one among them: {words}"),
        )
        fits = evidence.as_expected
        counted = {} if fits is None else {"chart_type": float(fits)}
        if not chart_types:  # every call failed
            counted = dict.fromkeys(self.weights, 0.0)
        return (yield from self._ask_model(evidence, sections, details, steps, counted))


def _is_chart_expected(expected: Expected) -> bool:
    """Whether a chart is expected."""
    value = expected.has_chart
    if isinstance(value, bool):
        return value
    if value is None or not _is_given(value):
        return not step_scores.is_null(expected.chart_type)  # a kind implies a chart
    word = value.strip().casefold()
    if word not in ("true", "false", "null"):
        raise step_scores.invalid_expected(f"has_chart is {value!r}, wanted true, false or 'null'")
    return word == "true"
