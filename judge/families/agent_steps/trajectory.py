"""The trajectory judge: did the agent's calls follow one of the accepted paths? It asks no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from assizes.judge.case import Case, Expected, ExpectedCall
from assizes.judge.evidence.steps import Step, requests, steps_of
from assizes.judge.evidence.tool_calls import canonical
from assizes.judge.families.agent_steps.base_judge import EvaluationStrategy
from assizes.judge.families.agent_steps.step_scores import (
    Finding,
    StepJudge,
    called,
    cut,
    given,
    listed,
    turns_of,
)
from assizes.judge.protocol import Steps
from assizes.judge.score import Score

MAX_STEPS: Final = 2000
"""The most steps that are compared: matching costs steps times expected calls."""


@dataclass(frozen=True, slots=True)
class PathMatch:
    """How far the steps follow one path.

    `share` is 0..1; `missed` holds the expected calls that were not made.
    """

    share: float
    matched: int
    missed: tuple[ExpectedCall, ...]


class TrajectoryJudge(StepJudge):
    """Compares all steps, in order, with the accepted paths of tool calls.

    The score is that of the best path. `in_order`: the share of its calls made in its order, other
    calls between them allowed. `set`: in any order, each as often as it is listed. `exact`: in
    order, over the longer of the two sides, so that 1 means these calls and no others; the calls
    of sub-agents may be left out of such a path as a whole.
    """

    name = "trajectory"
    strategy = EvaluationStrategy.TRAJECTORY
    needs = ("expected.trajectory",)
    description = "Share of the calls of the best accepted path that the agent made."

    def unspecified(self, expected: Expected) -> str | None:
        """Runs where there is a path."""
        return None if expected.trajectory else "no expected.trajectory"

    def found(self, case: Case) -> Steps[Finding]:
        """The best path's share; never asks."""
        yield from ()
        steps = steps_of(case.transcript)[:MAX_STEPS]
        mode = case.expected.trajectory_match
        matches = [path_match(path, steps, mode) for path in case.expected.trajectory]
        best = max(range(len(matches)), key=lambda place: matches[place].share)
        asked = requests(case.transcript)
        details: dict[str, Any] = {
            "question": asked[-1] if asked else "",
            "match": mode,
            "path": best,
            "expected_calls": listed([_shown(one) for one in case.expected.trajectory[best]]),
            "extracted_calls": called(steps),
            "paths": [
                {"share": match.share, "reasoning": _reasoning(match, path)}
                for match, path in zip(matches, case.expected.trajectory, strict=True)
            ],
        }
        reasoning = f"Path {best}: {details['paths'][best]['reasoning']}"
        return Finding(matches[best].share, reasoning, details, turns=turns_of(steps))

    def _scores(self, finding: Finding) -> list[Score]:
        parts = [
            self._headline(path["share"], path["reasoning"], {}, f"path:{place}")
            for place, path in enumerate(finding.details["paths"])
        ]
        return [*super()._scores(finding), *parts]


def path_match(path: Sequence[ExpectedCall], steps: Sequence[Step], mode: str) -> PathMatch:
    """How far steps follow a path, by one of `in_order`, `exact`, `set`; an empty path is followed
    by any steps, in `exact` by none.
    """
    due = [_Due(call, _arguments(call)) for call in path]
    every = [_key(step) for step in steps]
    if mode == "set":
        return _any_order(due, every)
    if mode == "in_order":
        return _in_order(due, every, len(due))
    own = [_key(step) for step in steps if not step.within]
    sides = [_in_order(due, side, max(len(due), len(side))) for side in (every, own)]
    return max(sides, key=lambda match: match.share)


_Made = tuple[str, str]
"""A step as it is compared: its tool and its arguments in canonical form."""


@dataclass(frozen=True, slots=True)
class _Due:
    call: ExpectedCall
    arguments: str | None

    def is_met_by(self, made: _Made) -> bool:
        return self.call.name == made[0] and self.arguments in (None, made[1])


def _arguments(call: ExpectedCall) -> str | None:
    return None if call.arguments is None else canonical(call.arguments)


def _key(step: Step) -> _Made:
    return step.name, canonical(step.arguments)


def _in_order(path: Sequence[_Due], made: Sequence[_Made], whole: int) -> PathMatch:
    """The longest common subsequence of path and steps, over `whole`."""
    lengths = [[0] * (len(made) + 1) for _ in range(len(path) + 1)]
    for i in range(len(path) - 1, -1, -1):
        for j in range(len(made) - 1, -1, -1):
            if path[i].is_met_by(made[j]):
                lengths[i][j] = lengths[i + 1][j + 1] + 1
            else:
                lengths[i][j] = max(lengths[i + 1][j], lengths[i][j + 1])
    missed, j = [], 0
    for i, due in enumerate(path):
        # On to the last place from which as many calls can still be matched.
        while j < len(made) and lengths[i][j + 1] == lengths[i][j]:
            j += 1
        if j < len(made) and due.is_met_by(made[j]):
            j += 1
        else:
            missed.append(due.call)
    return PathMatch(_share(lengths[0][0], whole), lengths[0][0], tuple(missed))


def _any_order(path: Sequence[_Due], made: Sequence[_Made]) -> PathMatch:
    """Each expected call takes one step; those with arguments choose first."""
    free = dict(enumerate(made))
    missed = []
    for due in sorted(path, key=lambda one: one.arguments is None):
        place = next((place for place, one in free.items() if due.is_met_by(one)), None)
        if place is None:
            missed.append(due.call)
        else:
            del free[place]
    matched = len(path) - len(missed)
    return PathMatch(_share(matched, len(path)), matched, tuple(missed))


def _share(part: int, whole: int) -> float:
    return round(part / whole, 9) if whole else 1.0


def _reasoning(match: PathMatch, path: Sequence[ExpectedCall]) -> str:
    missed = ", ".join(listed([_shown(one) for one in match.missed]))
    share = f"{match.matched} of {len(path)} expected calls made ({match.share:.2f})"
    return f"{share}; missing: {missed}" if missed else share


def _shown(expected: ExpectedCall) -> str:
    step = Step(0, expected.name, expected.arguments or {})
    return f"{expected.name}({'any' if expected.arguments is None else cut(given(step), 200)})"
