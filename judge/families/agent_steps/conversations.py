"""The judges of a whole conversation, and the entries of all agent-step judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from assizes.judge.case import Case, Expected, ExpectedCall
from assizes.judge.evidence.same_values import assigned_places, is_same_value
from assizes.judge.evidence.steps import AgentStep, final_response, requests, steps_of
from assizes.judge.evidence.tool_calls import NO_TOOL_TRACE_REASON, lacks_tool_trace
from assizes.judge.families.agent_steps import step_scores
from assizes.judge.families.agent_steps.base_judge import EvaluationStrategy
from assizes.judge.families.agent_steps.single_steps import (
    SearchJudge,
    SearchOptions,
    VisualizationJudge,
    VisualizationOptions,
)
from assizes.judge.families.agent_steps.sql import SqlJudge, SqlOptions
from assizes.judge.families.agent_steps.step_scores import (
    StepFinding,
    StepJudge,
    StepOptions,
    StepReply,
    SubFinding,
)
from assizes.judge.families.entry import JudgeEntry
from assizes.judge.prompts.prompt_texts import NOT_CAPTURED, numbered_list
from assizes.judge.protocol import Steps
from assizes.judge.score import Score

_RESPONSE_WEIGHTS: Final = {"relevance": 0.5, "faithfulness": 0.5}

MAX_SHOWN: Final = 2000
"""The most characters of a response, or of an expectation, in the details of a score."""

_RESPONSE_SYSTEM: Final = f"""\
You judge the final response of an AI agent to its user. You see the agent's instructions with the user's permissions, the user's requests, what a good response does, the agent's steps, and the response.

# Rules
{step_scores.RULES}
- relevance: whether the response answers the last request and does what is expected of it. Where a refusal is expected, a polite refusal is what is relevant, and an answer is not.
- faithfulness: whether all it says rests on the steps, the instructions or the requests. Figures and names that stand in none of them lower it. A refusal that claims nothing is faithful.
- The steps are there to check what the response says; the agent is not judged for how it found it.

{step_scores.reply_rule(*_RESPONSE_WEIGHTS)}"""

REFUSAL_EXPECTED: Final = (
    "Nothing may be answered: the response politely refuses and gives away nothing."
)
"""The expectation that a model reads where `expected.response_quality` is the text `null`."""


class ResponseReply(StepReply):
    """What the model replies."""

    relevance: SubFinding
    faithfulness: SubFinding


@dataclass(frozen=True, slots=True)
class ResponseEvidence:
    """The facts of the response judge's ask."""

    context: str  # the agent's instructions and the user's permissions
    requests: tuple[str, ...]  # all texts of the user; the last one is answered
    expected: str
    refusal: bool  # whether the agent must not answer
    steps: tuple[AgentStep, ...]
    response: str


class ResponseQualityJudge(StepJudge):
    """Judges the final response by relevance and faithfulness."""

    name = "response_quality"
    strategy = EvaluationStrategy.FINAL_RESPONSE
    needs = ("expected.response_quality",)
    description = "Mean of relevance and faithfulness of the final response."
    prompts = (_RESPONSE_SYSTEM, REFUSAL_EXPECTED)
    reply = ResponseReply
    weights = _RESPONSE_WEIGHTS

    def missing_expectation(self, expected: Expected) -> str | None:
        """The reason to skip a case whose `expected.response_quality` is blank; else `None`."""
        expectation = (expected.response_quality or "").strip()
        return None if expectation else "no expected.response_quality"

    def evaluate(self, case: Case) -> Steps[StepFinding]:
        """One ask; an empty response is scored without a model."""
        expected = (case.expected.response_quality or "").strip()
        refusal = step_scores.is_null(expected)
        response = final_response(case.transcript)
        user_requests = requests(case.transcript)
        details = {
            "question": user_requests[-1] if user_requests else "",
            "expected_response": step_scores.shorten_text(expected, MAX_SHOWN),
            "extracted_response": step_scores.shorten_text(response, MAX_SHOWN),
        }
        if not response:
            reason = "Rightly answered nothing" if refusal else "The response is empty"
            return StepFinding(1.0 if refusal else 0.0, reason, details)
        evidence = ResponseEvidence(
            context=(case.transcript.system or "").strip() or NOT_CAPTURED,
            requests=user_requests,
            expected=REFUSAL_EXPECTED if refusal else expected,
            refusal=refusal,
            steps=steps_of(case.transcript),
            response=response,
        )
        sections = (
            ("Agent's instructions and permissions", evidence.context),
            ("User requests, the last one is answered", numbered_list(user_requests)),
            ("What a good response does", evidence.expected),
            ("Agent's steps", step_scores.shown_steps(evidence.steps)),
            ("Final response", response),
        )
        return (yield from self._ask_model(evidence, sections, details))


MAX_STEPS: Final = 2000
"""The most steps that are compared: the time of a match grows with steps times expected calls."""


@dataclass(frozen=True, slots=True)
class PathMatch:
    """How far the steps follow one path."""

    share: float  # 0..1
    matched: int
    missed: tuple[ExpectedCall, ...]


class TrajectoryJudge(StepJudge):
    """Compares all steps, in order, with the accepted paths of tool calls; the best path counts."""

    name = "trajectory"
    version = "2"  # goes up with the rules
    strategy = EvaluationStrategy.TRAJECTORY
    needs = ("expected.trajectory",)
    description = "Share of the calls of the best accepted path that the agent made."

    def missing_expectation(self, expected: Expected) -> str | None:
        """The reason to skip a case whose `expected.trajectory` has no path; else `None`."""
        return None if expected.trajectory else "no expected.trajectory"

    def missing(self, case: Case) -> str | None:
        """A case is skipped without a path, or where the input holds no tool call at all."""
        return NO_TOOL_TRACE_REASON if lacks_tool_trace(case) else super().missing(case)

    def evaluate(self, case: Case) -> Steps[StepFinding]:
        """The share of the best path; no model is asked."""
        yield from ()  # a generator that asks nothing
        steps = steps_of(case.transcript)[:MAX_STEPS]
        paths, mode = case.expected.trajectory, case.expected.trajectory_match
        exact = mode == "exact" or case.expected.arguments_match == "exact"
        matches = [path_match(path, steps, mode, exact=exact) for path in paths]
        best = max(range(len(matches)), key=lambda place: matches[place].share)
        user_requests = requests(case.transcript)
        shares = []
        for match, path in zip(matches, paths, strict=True):
            missed = ", ".join(step_scores.short_texts([_call_text(call) for call in match.missed]))
            made = f"{match.matched} of {len(path)} expected calls made ({match.share:.2f})"
            reasoning = f"{made}; missing: {missed}" if missed else made
            shares.append({"share": match.share, "reasoning": reasoning})
        details = {
            "question": user_requests[-1] if user_requests else "",
            "match": mode,
            "path": best,
            "expected_calls": step_scores.short_texts([_call_text(call) for call in paths[best]]),
            "extracted_calls": step_scores.call_texts(steps),
            "paths": shares,
        }
        reasoning = f"Path {best}: {shares[best]['reasoning']}"
        return StepFinding(
            matches[best].share, reasoning, details, turns=step_scores.turns_of(steps)
        )

    def _scores(self, finding: StepFinding) -> list[Score]:
        parts = [
            self._score(StepFinding(path["share"], path["reasoning"]), f"path:{place}")
            for place, path in enumerate(finding.details["paths"])
        ]
        return [*super()._scores(finding), *parts]


def path_match(
    path: Sequence[ExpectedCall], steps: Sequence[AgentStep], mode: str, *, exact: bool = False
) -> PathMatch:
    """How far the steps follow a path; `mode` is that of `expected.trajectory_match`.

    An empty path scores 1, in mode `exact` only without steps. With `exact`, arguments that the
    path does not name are wrong.
    """
    met = [[_is_met_by(call, step, exact=exact) for step in steps] for call in path]
    # The share of the path's calls made in any order, each as often as the path lists it.
    if mode == "set":
        return _any_order(path, met)
    # The share made in the order of the path; other calls may stand between them.
    if mode == "in_order":
        return _in_order(path, met, len(path))
    # `exact` divides by the longer side, so that 1 means no other calls; a path may name the calls
    # of sub-agents or leave them out.
    own = [place for place, step in enumerate(steps) if not step.within]
    own_met = [[row[place] for place in own] for row in met]
    sides = [
        _in_order(path, rows, max(len(path), length))
        for rows, length in ((met, len(steps)), (own_met, len(own)))
    ]
    return max(sides, key=lambda match: match.share)


def _is_met_by(call: ExpectedCall, step: AgentStep, *, exact: bool) -> bool:
    return call.name == step.name and (
        call.arguments is None or is_same_value(call.arguments, step.arguments, exact=exact)
    )


def _in_order(path: Sequence[ExpectedCall], met: Sequence[Sequence[bool]], total: int) -> PathMatch:
    """The length of the longest common subsequence of path and steps, divided by `total`."""
    # Dynamic programming (Wagner and Fischer, 1974), from the ends, to be read forwards.
    count = len(met[0]) if met else 0
    lengths = [[0] * (count + 1) for _ in range(len(path) + 1)]  # of path[i:], steps[j:]
    for i in range(len(path) - 1, -1, -1):
        for j in range(count - 1, -1, -1):
            if met[i][j]:
                lengths[i][j] = lengths[i + 1][j + 1] + 1
            else:
                lengths[i][j] = max(lengths[i + 1][j], lengths[i][j + 1])
    missed, j = [], 0
    for i, call in enumerate(path):
        # Go on to the last step from which as many calls can still be matched.
        while j < count and lengths[i][j + 1] == lengths[i][j]:
            j += 1
        if j < count and met[i][j]:
            j += 1
        else:
            missed.append(call)
    return PathMatch(_path_share(lengths[0][0], total), lengths[0][0], tuple(missed))


def _any_order(path: Sequence[ExpectedCall], met: Sequence[Sequence[bool]]) -> PathMatch:
    """Each expected call uses up one step; as many of them as possible find one."""
    places = assigned_places([[j for j, is_met in enumerate(row) if is_met] for row in met])
    missed = tuple(call for i, call in enumerate(path) if i not in places)
    return PathMatch(_path_share(len(places), len(path)), len(places), missed)


def _path_share(part: int, total: int) -> float:
    return round(part / total, 9) if total else 1.0  # an empty path asks for nothing


def _call_text(expected: ExpectedCall) -> str:
    if expected.arguments is None:
        return f"{expected.name}(any)"
    text = step_scores.arguments_text(AgentStep(0, expected.name, expected.arguments))
    return f"{expected.name}({step_scores.shorten_text(text, 200)})"


def _entry(kind: type[StepJudge], options: type[StepOptions]) -> JudgeEntry:
    return JudgeEntry(
        description=kind.description,
        needs=("transcript", *kind.needs),
        needs_ground_truth=True,
        create_judge=lambda chosen, _: kind(chosen),
        options=options,
        asks=kind is not TrajectoryJudge,
    )


ENTRIES: Final[Mapping[str, JudgeEntry]] = {
    SqlJudge.name: _entry(SqlJudge, SqlOptions),
    SearchJudge.name: _entry(SearchJudge, SearchOptions),
    VisualizationJudge.name: _entry(VisualizationJudge, VisualizationOptions),
    ResponseQualityJudge.name: _entry(ResponseQualityJudge, StepOptions),
    TrajectoryJudge.name: _entry(TrajectoryJudge, StepOptions),
}
"""The catalogue entries of the five agent-step judges, by name."""
