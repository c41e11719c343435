"""The visualization judge (seed 002): did a chart help, and does its kind suit the data?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from assizes.judge.case import Case, Expected
from assizes.judge.evidence.steps import (
    AgentStep,
    chart_type,
    is_same_chart,
    requests,
    steps_of,
    steps_of_tools,
)
from assizes.judge.families.agent_steps.base_judge import EvaluationStrategy
from assizes.judge.families.agent_steps.step_scores import (
    RULES,
    StepFinding,
    StepJudge,
    StepOptions,
    StepReply,
    SubFinding,
    call_texts,
    invalid_expected,
    is_null,
    negative_case_finding,
    reply_rule,
    shown_steps,
    turns_of,
    weighted_finding,
)
from assizes.judge.prompts.sections import data_section, numbered_list
from assizes.judge.protocol import Prompt, Steps, ask

WEIGHTS: Final = {"appropriateness": 0.5, "chart_type": 0.5}

ANY: Final = "any"
"""The expected kind of chart where the case names none."""

CONFLICT: Final = "has_chart says no chart, chart_type names one: judged as no chart"
"""Warning in the details of a score whose expected values contradict each other."""

SYSTEM: Final = f"""\
You judge the charts that an AI agent made for its user. You see the user's requests, the expected kind of chart, and the agent's chart calls.

# Rules
{RULES}
- appropriateness: whether a chart helps with the requests, and shows the data that were asked for.
- chart_type: whether the kind of chart is the expected one; with "{ANY}", whether it suits the data, e.g. a line for a course over time, bars for a comparison, a pie for shares of a whole.

{reply_rule(*WEIGHTS)}"""


class VisualizationOptions(StepOptions):
    """Options of the visualization judge."""

    tools: tuple[str, ...] = Field(
        default=("create_visualization", "create_chart"), description="tools that make charts"
    )


class VisualizationReply(StepReply):
    """What the model replies."""

    appropriateness: SubFinding
    chart_type: SubFinding


@dataclass(frozen=True, slots=True)
class VisualizationEvidence:
    """The facts of the visualization judge's ask.

    `chart_types` holds the kind of each chart that was made without an error; `None` where the call
    does not name the kind.
    """

    requests: tuple[str, ...]
    expected_type: str
    steps: tuple[AgentStep, ...]
    chart_types: tuple[str | None, ...]

    @property
    def as_expected(self) -> bool | None:
        """Whether a chart of the expected kind was made; `None` where any kind is accepted."""
        if self.expected_type == ANY:
            return None
        return any(is_same_chart(kind, self.expected_type) for kind in self.chart_types)


class VisualizationJudge(StepJudge):
    """Judges whether and how the agent made charts."""

    name = "visualization"
    strategy = EvaluationStrategy.SINGLE_STEP
    needs = ("expected.has_chart or expected.chart_type",)
    description = "Mean of appropriateness and chart type of the agent's charts."
    prompts = (SYSTEM,)
    options: VisualizationOptions

    def missing_expectation(self, expected: Expected) -> str | None:
        """The judge needs `expected.has_chart` or `expected.chart_type`."""
        has_expectation = expected.has_chart is not None or expected.chart_type
        return None if has_expectation else "neither expected.has_chart nor expected.chart_type"

    def evaluate(self, case: Case) -> Steps[StepFinding]:
        """One ask; where no chart is expected, or none was made, code decides without a model."""
        steps = steps_of_tools(steps_of(case.transcript), self.options.tools)
        user_requests = requests(case.transcript)
        kind = (case.expected.chart_type or ANY).strip() or ANY
        chart_types = tuple(chart_type(step) for step in steps if not step.failed)
        wanted = _is_chart_expected(case.expected)
        details = {
            "question": user_requests[-1] if user_requests else "",
            "expected_has_chart": wanted,
            "expected_chart_type": kind,
            "extracted_has_chart": bool(steps),
            "extracted_chart_type": next(
                (type_name for type_name in chart_types if type_name), None
            ),
        }
        if not wanted:
            return negative_case_finding(
                steps,
                call_texts(steps),
                details | _conflict(case.expected),
                fault="Should not make a chart but did",
                merit="Rightly made no chart",
            )
        if not steps:
            tools = ", ".join(self.options.tools) or "no tool"
            return StepFinding(
                0.0, f"no chart: one expected, but none of {tools} was called", details
            )
        evidence = VisualizationEvidence(user_requests, kind, steps, chart_types)
        prompt = Prompt(SYSTEM, _user_message(evidence))
        reply = yield from ask(prompt, VisualizationReply, evidence)
        return weighted_finding(reply, WEIGHTS, details, turns_of(steps))


def _is_chart_expected(expected: Expected) -> bool:
    """Whether a chart is expected; a `chart_type` without `has_chart` implies a chart.

    Raises:
        JudgeFailed: `invalid_expected`, for a `has_chart` that is neither true, false nor `null`.
    """
    value = expected.has_chart
    if isinstance(value, bool):
        return value
    if value is None:
        return not is_null(expected.chart_type)
    word = value.strip().casefold()
    if word not in ("true", "false", "null"):
        raise invalid_expected(f"has_chart is {value!r}, wanted true, false or 'null'")
    return word == "true"


def _conflict(expected: Expected) -> dict[str, Any]:
    named_kind = expected.chart_type and not is_null(expected.chart_type)
    return {"warnings": [CONFLICT]} if named_kind else {}


def _user_message(evidence: VisualizationEvidence) -> str:
    types_text = (
        ", ".join(kind or "not said" for kind in evidence.chart_types) or "none without an error"
    )
    words = {True: "yes", False: "no", None: "any kind will do"}[evidence.as_expected]
    return "\n\n".join(
        [
            data_section("User requests", numbered_list(evidence.requests)),
            data_section("Expected kind of chart", evidence.expected_type),
            data_section("Agent's chart calls", shown_steps(evidence.steps)),
            data_section(
                "Kinds of chart made", f"{types_text}; the expected one among them: {words}"
            ),
        ]
    )
