"""`assizes judge-tables`: asks the product's own judges, makes the tables, prints and writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from assizes.deployments.commands import output
from assizes.deployments.library.evaluate import evaluate
from assizes.deployments.settings import read_optional_config
from assizes.deployments.terminal import tell_user
from assizes.judge.calibration.measures import Estimate
from assizes.judge.config.judging import OFFLINE_MODEL
from assizes.judge.errors import OverBudget
from assizes.tasks.recorded.document import JudgeTables, judge_tables
from assizes.tasks.recorded.files import FILES, write_tables
from assizes.tasks.recorded.own_judges import ScoreRows, judged_items, score_rows
from assizes.tasks.recorded.own_tasks import OwnTask, own_tasks
from assizes.tasks.recorded.page import estimate_text
from assizes.tasks.recorded.reading import data_folder
from assizes.tasks.recorded.values import ALL, JudgedItems

SHARD_CASES: Final = 10
"""Cases of a shard: where the budget ends, the answers of the unfinished shards are in no row."""

_CUT_SHORT: Final = ("OverBudget", "Halted", "Incomplete")
"""How a run ends that leaves cases unjudged."""


@dataclass(frozen=True, slots=True)
class AskedModel:
    """The model that is asked about the items now, and its bounds."""

    model: str
    api_base: str | None
    budget_usd: float  # of all tasks together
    limit: int | None  # items of each task
    config: Path | None


def print_judge_tables(out: Path | None, asked: AskedModel | None, *, as_json: bool) -> None:
    """Print the tables, and write them into a folder where one is named.

    Raises:
        ConfigurationError: the recorded sets are not there, or the model cannot be asked.
    """
    folder = data_folder()
    judged = [_floor(task) for task in own_tasks(folder)]
    if asked is not None:
        judged += answers_of_model(folder, asked)
    tables = judge_tables(folder, judged)
    if out is not None:
        write_tables(tables, out)
    if as_json:
        output.print_json(tables.model_dump(mode="json"))
    else:
        _print_tables(tables, out)


def _floor(task: OwnTask) -> JudgedItems:
    rows, _ = _ask(task, {})
    return judged_items(task, rows, f"{OFFLINE_MODEL}, {task.judge}", "floor")


def answers_of_model(folder: Path, asked: AskedModel) -> list[JudgedItems]:
    """What the model answers, task by task, until the budget is spent.

    Of the configuration, [judge] and [limits] count.

    Raises:
        ConfigurationError: the recorded sets are not there, or the model cannot be asked.
    """
    judged, left_usd = [], asked.budget_usd
    config = read_optional_config(asked.config).model_dump(include={"judge", "limits"})
    chosen: dict[str, Any] = {"config": {**config, "runner": {"shard_size": SHARD_CASES}}}
    if asked.api_base is not None:
        chosen["api_base"] = asked.api_base
    for task in own_tasks(folder, asked.limit):
        settings = {"model": asked.model, "budget_usd": left_usd, **chosen}
        try:
            rows, spent_usd = _ask(task, settings)
        except OverBudget as error:
            tell_user(f"{task.dataset}, {task.judge}: not asked: {error}")
            break
        judged.append(judged_items(task, rows, f"{asked.model}, {task.judge}", "model"))
        left_usd -= spent_usd
        if left_usd <= 0:
            break
    return judged


def _ask(task: OwnTask, settings: Mapping[str, Any]) -> tuple[ScoreRows, float]:
    """The row of each score, and the US dollars that the answers cost."""
    result = evaluate(list(task.rows), judges=task.called, progress=False, **settings)
    if result.conclusion in _CUT_SHORT:
        reasons = "; ".join(result.reasons)
        tell_user(f"{task.dataset}, {task.judge}: not all items were judged: {reasons}")
    scores = result.to_polars().filter(pl.col("metric") == task.judge)
    rows = score_rows(scores.iter_rows(named=True))
    return rows, result.summary.total_platform_cost_usd or 0.0


COLUMNS: Final = ("judge", "#items", "#unread", "#kappa", "#F1 of fails", "#people", "#flips")


def _print_tables(tables: JudgeTables, out: Path | None) -> None:
    tasks = dict.fromkeys((row.dataset, row.task) for row in tables.rows)
    for dataset, task in tasks:
        rows = [
            (
                row.judge if row.part == ALL else f"{row.judge}, {row.part}",
                row.items,
                row.unread,
                estimate_text(row.cited_kappa),
                _plain(row.failing_f1),
                None if row.ceiling_kappa is None else f"{row.ceiling_kappa:.2f}",
                _plain(row.flip_rate),
            )
            for row in tables.rows
            if (row.dataset, row.task) == (dataset, task)
        ]
        output.print_table(f"{dataset}: {task}", COLUMNS, rows)
    different = tables.different
    output.print_line(
        f"{len(tables.figures) - len(different)} of {len(tables.figures)} published figures come out "
        "equal at the printed decimals"
    )
    output.print_lines(
        f"different: {figure.dataset}, {figure.figure}: published {figure.published}, ours {figure.ours}"
        for figure in different
    )
    output.print_lines(
        f"not reproducible: {gap.dataset}, {gap.what}: {gap.reason}"
        for gap in tables.not_reproduced
    )
    if out is not None:
        output.print_line(f"written to {out}: {', '.join(FILES)}")


def _plain(estimate: Estimate | None) -> str | None:
    """The number without its interval, which the page and the tables hold."""
    return None if estimate is None or estimate.value is None else f"{estimate.value:.2f}"
