"""`assizes rubric test`: tries a rubric and prints what its levels and its words are worth."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assizes.deployments.commands import output
from assizes.judge.alignment.rubric_trial import RubricComparison, RubricTrial, WrongLevel
from assizes.judge.config.run import RunConfig
from assizes.tasks.try_rubric import TrialRequest, named_rubric, try_rubric

MAX_SHOWN: Final = 10
"""The most cases without their level that are printed; `--json` has all of them."""


@dataclass(frozen=True, slots=True)
class RubricTestOptions:
    """What is tried, and how it is given out."""

    file: str  # or the name of a built-in metric
    against: str | None
    cases: Path | None  # CSV
    run: str | None  # stored run with labels
    asks: bool
    as_json: bool


def try_and_print(config: RunConfig, wanted: RubricTestOptions) -> int:
    """Try a rubric and print the result; returns 0 if each of its tests got its level, else 1.

    Raises:
        ConfigurationError: a file, the labels or the model cannot be used.
        Inconclusive: too many cases got no level.
        OverBudget: the budget was spent.
    """
    request = TrialRequest(
        rubric=named_rubric(wanted.file),
        against=None if wanted.against is None else named_rubric(wanted.against),
        cases=wanted.cases,
        run=wanted.run,
        asks=wanted.asks,
    )
    trial = asyncio.run(try_rubric(config, request))
    if wanted.as_json:
        output.print_json(trial.model_dump(mode="json"))
    else:
        _print_trial(trial)
    return 0 if trial.is_passed else 1


def _print_trial(trial: RubricTrial) -> None:
    output.print_line(f"{trial.metric}: rubric {trial.rubric_hash}")
    if trial.model is None:
        output.print_line("no case was asked about")
    else:
        output.print_line(output.judge_line(trial.model))
        passed = trial.tests - len(trial.failed_tests)
        output.print_line(
            f"tests of the file: {passed} of {trial.tests} passed; cases in all: {trial.cases}, "
            f"{trial.unanswered} without a level"
        )
        rows = [(level, *row) for level, row in zip(trial.wanted, trial.table, strict=True)]
        columns = ("wanted", *(f"#given {level}" for level in trial.given))
        output.print_table("levels", columns, rows)
        output.print_line(f"right: {trial.agreement}; kappa: {trial.kappa}")
    output.print_lines(_remarks(trial))
    if trial.comparison is not None:
        output.print_line(_comparison_line(trial.comparison))


def _remarks(trial: RubricTrial) -> Iterator[str]:
    for mismatch in trial.failed_tests:
        yield f"FAILED {_case_line(mismatch)}"
    shown = trial.mismatches[:MAX_SHOWN]
    yield from map(_case_line, shown)
    if more := len(trial.mismatches) - len(shown):
        yield f"and {more} more cases without their level; --json has all"
    for each in trial.confused:
        yield (
            f"confused: {each.cases} cases of level {each.wanted} got {each.given} "
            f"({100 * each.share:.0f} %)"
        )
    if trial.never_given:
        yield f"never given: {', '.join(trial.never_given)}"
    if trial.model is not None and trial.untested:
        yield f"no case is of level: {', '.join(trial.untested)}"
    for finding in trial.lint:
        yield f"{finding.where}: {finding.words!r} {finding.why}"


def _case_line(mismatch: WrongLevel) -> str:
    level = mismatch.given or "no level"
    return f"{mismatch.case_id}: wanted {mismatch.wanted}, got {level}: {mismatch.reason}"


def _comparison_line(comparison: RubricComparison) -> str:
    span = ""
    if comparison.low is not None and comparison.high is not None:
        span = f" [{100 * comparison.low:+.1f}, {100 * comparison.high:+.1f}]"
    return (
        f"against rubric {comparison.against}: {comparison.word}; right "
        f"{100 * comparison.right:.1f} % beside {100 * comparison.right_against:.1f} %, "
        f"{100 * comparison.delta:+.1f} points{span}, p = {comparison.p_value:.4f}; "
        f"{comparison.only_this} only by this one, {comparison.only_other} only by the other"
    )
