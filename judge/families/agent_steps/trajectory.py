"""The trajectory judge (seed 002): did the agent's calls follow one of the accepted paths of calls?

The judge asks no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from assizes.judge.case import Case, Expected, ExpectedCall
from assizes.judge.evidence.steps import AgentStep, requests, steps_of
from assizes.judge.evidence.tool_calls import canonical_text
from assizes.judge.families.agent_steps.base_judge import EvaluationStrategy
from assizes.judge.families.agent_steps.step_scores import (
    StepFinding,
    StepJudge,
    arguments_text,
    call_texts,
    short_texts,
    shorten_text,
    turns_of,
)
from assizes.judge.protocol import Steps
from assizes.judge.score import Score

MAX_STEPS: Final = 2000
"""The most steps that are compared: the time of a match grows with steps times expected calls."""


@dataclass(frozen=True, slots=True)
class PathMatch:
    """How far the steps follow one path.

    `share` is the score 0..1, `matched` the number of expected calls that were made, and `missed`
    holds the expected calls that were not made.
    """

    share: float
    matched: int
    missed: tuple[ExpectedCall, ...]


class TrajectoryJudge(StepJudge):
    """Compares all steps, in order, with the accepted paths of tool calls.

    The score is the score of the best path, by `expected.trajectory_match`. `in_order`: the share
    of the path's calls that were made in the path's order; other calls may stand between them.
    `set`: the share of the calls that were made in any order, each as often as the path lists it.
    `exact`: the calls made in order, divided by the length of the longer side, so that 1 means
    these calls and no others; a path may leave out all calls of sub-agents.
    """

    name = "trajectory"
    strategy = EvaluationStrategy.TRAJECTORY
    needs = ("expected.trajectory",)
    description = "Share of the calls of the best accepted path that the agent made."

    def missing_expectation(self, expected: Expected) -> str | None:
        """The judge needs at least one path in `expected.trajectory`."""
        return None if expected.trajectory else "no expected.trajectory"

    def evaluate(self, case: Case) -> Steps[StepFinding]:
        """The share of the best path; no model is asked."""
        yield from ()
        steps = steps_of(case.transcript)[:MAX_STEPS]
        mode = case.expected.trajectory_match
        matches = [path_match(path, steps, mode) for path in case.expected.trajectory]
        best = max(range(len(matches)), key=lambda place: matches[place].share)
        user_requests = requests(case.transcript)
        details: dict[str, Any] = {
            "question": user_requests[-1] if user_requests else "",
            "match": mode,
            "path": best,
            "expected_calls": short_texts(
                [_call_text(call) for call in case.expected.trajectory[best]]
            ),
            "extracted_calls": call_texts(steps),
            "paths": [
                {"share": match.share, "reasoning": _reasoning(match, path)}
                for match, path in zip(matches, case.expected.trajectory, strict=True)
            ],
        }
        reasoning = f"Path {best}: {details['paths'][best]['reasoning']}"
        return StepFinding(matches[best].share, reasoning, details, turns=turns_of(steps))

    def _scores(self, finding: StepFinding) -> list[Score]:
        parts = [
            self._score(StepFinding(path["share"], path["reasoning"]), f"path:{place}")
            for place, path in enumerate(finding.details["paths"])
        ]
        return [*super()._scores(finding), *parts]


def path_match(path: Sequence[ExpectedCall], steps: Sequence[AgentStep], mode: str) -> PathMatch:
    """How far the steps follow a path.

    Args:
        path: the expected calls; an empty path scores 1, in mode `exact` only without steps.
        steps: the agent's steps in order.
        mode: `in_order`, `exact` or `set` (see `TrajectoryJudge`).
    """
    path_steps = [
        _PathStep(call, None if call.arguments is None else canonical_text(call.arguments))
        for call in path
    ]
    every = [_key(step) for step in steps]
    if mode == "set":
        return _any_order(path_steps, every)
    if mode == "in_order":
        return _in_order(path_steps, every, len(path_steps))
    own = [_key(step) for step in steps if not step.within]
    sides = [_in_order(path_steps, side, max(len(path_steps), len(side))) for side in (every, own)]
    return max(sides, key=lambda match: match.share)


_StepKey = tuple[str, str]
"""A step as two steps are compared: the tool's name, and the arguments in canonical form."""


@dataclass(frozen=True, slots=True)
class _PathStep:
    """An expected call; `arguments` in canonical form, `None` where any arguments are accepted."""

    call: ExpectedCall
    arguments: str | None

    def is_met_by(self, step_key: _StepKey) -> bool:
        return self.call.name == step_key[0] and self.arguments in (None, step_key[1])


def _key(step: AgentStep) -> _StepKey:
    return step.name, canonical_text(step.arguments)


def _in_order(path: Sequence[_PathStep], step_keys: Sequence[_StepKey], total: int) -> PathMatch:
    """The length of the longest common subsequence of path and steps, divided by `total`."""
    lengths = [[0] * (len(step_keys) + 1) for _ in range(len(path) + 1)]
    for i in range(len(path) - 1, -1, -1):
        for j in range(len(step_keys) - 1, -1, -1):
            if path[i].is_met_by(step_keys[j]):
                lengths[i][j] = lengths[i + 1][j + 1] + 1
            else:
                lengths[i][j] = max(lengths[i + 1][j], lengths[i][j + 1])
    missed, j = [], 0
    for i, path_step in enumerate(path):
        # Go on to the last step from which as many calls can still be matched.
        while j < len(step_keys) and lengths[i][j + 1] == lengths[i][j]:
            j += 1
        if j < len(step_keys) and path_step.is_met_by(step_keys[j]):
            j += 1
        else:
            missed.append(path_step.call)
    return PathMatch(_share(lengths[0][0], total), lengths[0][0], tuple(missed))


def _any_order(path: Sequence[_PathStep], step_keys: Sequence[_StepKey]) -> PathMatch:
    """Each expected call uses up one step; calls with expected arguments choose first."""
    free = dict(enumerate(step_keys))
    missed = []
    for path_step in sorted(path, key=lambda entry: entry.arguments is None):
        place = next(
            (place for place, step_key in free.items() if path_step.is_met_by(step_key)), None
        )
        if place is None:
            missed.append(path_step.call)
        else:
            del free[place]
    matched = len(path) - len(missed)
    return PathMatch(_share(matched, len(path)), matched, tuple(missed))


def _share(part: int, total: int) -> float:
    return round(part / total, 9) if total else 1.0


def _reasoning(match: PathMatch, path: Sequence[ExpectedCall]) -> str:
    missed = ", ".join(short_texts([_call_text(call) for call in match.missed]))
    share = f"{match.matched} of {len(path)} expected calls made ({match.share:.2f})"
    return f"{share}; missing: {missed}" if missed else share


def _call_text(expected: ExpectedCall) -> str:
    step = AgentStep(0, expected.name, expected.arguments or {})
    return f"{expected.name}({'any' if expected.arguments is None else shorten_text(arguments_text(step), 200)})"
