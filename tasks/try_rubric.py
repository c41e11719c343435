"""Tries a rubric on its own tests, on cases of a file and on labelled cases; writes to no store."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from assizes.judge.alignment.rejudging import Rejudging, rubric_hash
from assizes.judge.alignment.rubric_files import RubricFile, read_rubric_file, rubric_file
from assizes.judge.alignment.rubric_parts import levels_of, lint_findings
from assizes.judge.alignment.rubric_trial import (
    RubricTrial,
    TrialCase,
    case_of_test,
    compare_rubrics,
    tally_levels,
)
from assizes.judge.catalog import CONVERSATION, resolve_judges
from assizes.judge.config.judging import OFFLINE_MODEL, MetricSelection
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.families.custom.toml_judges import CustomRubric, own_judge
from assizes.judge.families.rag import built_in, yes_no_rubrics
from assizes.judge.rubrics.own_tests import RubricTest
from assizes.judge.rubrics.rubric import BUILT_IN
from assizes.judge.score import Score
from assizes.tasks.context.run_context import open_run_context
from assizes.tasks.runs.alignments import labelled_metric
from assizes.tasks.runtime.temporary_folder import TemporaryFolder
from assizes.tasks.store import existing_store

MAX_CASES: Final = 5_000
"""The most rows of a file of cases."""

_COLUMNS: Final = ("request", "response", "expected", "passage", "expected_response")


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """What is tried."""

    rubric: RubricFile
    against: RubricFile | None = None
    cases: Path | None = None  # CSV
    run: str | None = None  # a stored run with labels of the metric
    asks: bool = True  # false: the text is only read


def named_rubric(name: str) -> RubricFile:
    """The rubric of a file, or the built-in one of this name.

    Raises:
        ConfigurationError: there is no such file or name, or the file holds no rubric.
    """
    path, built_in = Path(name), (*BUILT_IN, *yes_no_rubrics())
    if name in built_in and not path.exists():
        return rubric_file(name, ())
    if path.name == name and not path.suffix and not path.exists():  # a name, and no path
        known = ("a rubric file such as rubrics/helpful.toml", *built_in)
        raise ConfigurationError.unknown("rubric", name, known, "rubric test")
    return read_rubric_file(path)


async def try_rubric(config: RunConfig, request: TrialRequest) -> RubricTrial:
    """Ask about all cases and tally the levels.

    Raises:
        ConfigurationError: a file, the labels or the model cannot be used.
        Inconclusive: too many cases got no level.
        OverBudget: the budget was spent.
    """
    rubric = request.rubric
    levels, cases = levels_of(rubric.table), _cases(config, request)
    side = await _ask_cases(config, rubric, cases if request.asks else [])
    trial = RubricTrial.model_validate(
        {
            "metric": rubric.metric,
            "rubric_hash": side.hash,
            "model": side.model,
            "levels": levels,
            "lint": tuple(lint_findings(rubric)),
            **tally_levels(cases if request.asks else [], side.scores, levels),
            "cost_usd": side.cost_usd,
        }
    )
    if request.against is None or not side.scores:
        return trial
    other_levels = levels_of(request.against.table)
    other = await _ask_cases(config, request.against, cases)
    both = compare_rubrics(cases, (levels, other_levels), (side.scores, other.scores), other.hash)
    spent = None if side.cost_usd is None else side.cost_usd + (other.cost_usd or 0.0)
    return trial.model_copy(update={"comparison": both, "cost_usd": spent})


@dataclass(frozen=True, slots=True)
class _AskedRubric:
    hash: str
    model: str | None = None  # None: nothing was asked
    scores: Sequence[Score] = ()
    cost_usd: float | None = None


async def _ask_cases(
    config: RunConfig, rubric: RubricFile, cases: Sequence[TrialCase]
) -> _AskedRubric:
    """The score of each case by a rubric, through the model, cache and limits of `config`."""
    with TemporaryFolder() as folder:
        if not cases:
            return _AskedRubric(_text_hash(rubric))
        own = _config_for(config, rubric, folder.path)
        async with open_run_context(own) as context:
            (judge,) = resolve_judges(own.judge).judges
            text_hash = rubric_hash(judge, rubric.metric)
            engine = context.engine_for(f"rubric-test-{rubric.metric}-{text_hash}")
            report = context.progress
            hearing = Rejudging(engine, rubric.metric, lambda done: report("trying", done, 0))
            scores = await hearing.scores(judge, [each.case for each in cases])
            model = own.judge.model or OFFLINE_MODEL
            return _AskedRubric(text_hash, model, scores, engine.cost_usd)


def _text_hash(rubric: RubricFile) -> str:
    """The hash that the rubric has in rows, without a model to judge by it."""
    table = rubric.table
    if not isinstance(table, CustomRubric):
        return table.content_hash()
    judge = built_in(rubric.metric) if rubric.path is None else own_judge(table)
    return judge.metric.rubric_hash


def _config_for(config: RunConfig, rubric: RubricFile, folder: Path) -> RunConfig:
    """The configuration with one judge of one metric, and a store of its own that goes at the end."""
    table, judge = rubric.table, config.judge
    is_built_in = rubric.path is None
    own: dict[str, Any] = {"options": {}, "rubrics": ()}
    if not is_built_in:
        (folder / "rubrics").mkdir()
        text = rubric.text
        (folder / "rubrics" / f"{rubric.metric}.toml").write_text(text, encoding="utf-8")
        own["rubrics"] = (str(folder / "rubrics"),)
    if isinstance(table, CustomRubric) or rubric.metric in yes_no_rubrics():
        own |= {"judges": (rubric.metric,), "metrics": None}
    else:
        weighed = MetricSelection(metric=rubric.metric, weight=1.0)
        own |= {"judges": (CONVERSATION,), "metrics": (weighed,)}
    return config.model_copy(
        update={
            "judge": judge.model_copy(update=own),
            "store": config.store.model_copy(update={"uri": str(folder / "rows")}),
        }
    )


def _cases(config: RunConfig, request: TrialRequest) -> list[TrialCase]:
    table = request.rubric.table
    cases = [case_of_test(test, number) for number, test in enumerate(table.tests, 1)]
    if request.cases is not None:
        cases += _cases_of_file(request.cases, levels_of(table))
    if request.run is not None:
        with existing_store(config.store) as store:
            record = store.run(request.run)
            items = labelled_metric(store, record, request.rubric.metric, config.calibration).items
        cases += [
            TrialCase(
                item.case, "pass" if item.people else "fail", "labels", item.cluster, item.weight
            )
            for item in items
        ]
    return cases


def _cases_of_file(path: Path, levels: Sequence[str]) -> list[TrialCase]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for _, row in zip(range(MAX_CASES + 1), csv.DictReader(file), strict=False)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"--cases {str(path)!r}: cannot be read: {error}") from error
    if len(rows) > MAX_CASES:
        raise ConfigurationError(f"--cases {str(path)!r}: at most {MAX_CASES:,} rows are read")
    return [_case_of_row(row, number, levels, path) for number, row in enumerate(rows, 1)]


def _case_of_row(row: dict[str, str], number: int, levels: Sequence[str], path: Path) -> TrialCase:
    where = f"--cases {str(path)!r}, row {number}"
    cells = {name: (row.get(name) or "").strip() for name in _COLUMNS}
    if cells["expected"] not in (*levels, "pass", "fail"):
        raise ConfigurationError(
            f"{where}: expected {cells['expected'][:40]!r}; accepted: {', '.join(levels)}"
        )
    passage = cells.pop("passage")
    try:
        test = RubricTest.model_validate({**cells, "passages": [passage] if passage else []})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigurationError(f"{where}: {first['loc'][0]}: {first['msg']}") from error
    return case_of_test(test, number, "cases")
