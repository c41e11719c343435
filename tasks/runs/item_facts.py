"""What a stored run says of labelled cases: the judge's reason, its failure code, the groups."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from assizes.judge.calibration.disagreements import ItemFacts
from assizes.judge.calibration.labelled import RatedItem
from assizes.judge.config.gates import VERDICT
from assizes.judge.verdicts.executions import collect_rows
from assizes.judge.verdicts.verdict import rationale
from assizes.tasks.store import Store

_KEY: Final = ("case_id", "repetition")
_MAX_TAGS: Final = 20  # tags of a case that make groups, at most
_REASON_CHARS: Final = 4_000  # characters of a judge's reason that are kept, at most


def item_facts(
    store: Store, run_id: str, judge: str, metric: str, items: Sequence[RatedItem]
) -> dict[tuple[str, int | None], ItemFacts]:
    """The facts of the labelled items that a run has, by case id and repetition.

    `judge` is the judge of the metric. It is empty for the verdict, whose reason is the summary of
    the case, and whose code is its root cause.
    """
    ids = pl.lit(pl.Series([item.case_id for item in items], dtype=pl.String).implode())
    is_labelled = pl.col("case_id").is_in(ids)
    columns = ("agent", "agent_version", "tags", "summary", "root_cause")
    cases = collect_rows(
        store.scan(run_id, "cases").filter(is_labelled).select(*_KEY, *columns)
    ).to_dicts()
    if metric == VERDICT:
        reasons = {_key(row): (row["summary"] or "", row["root_cause"]) for row in cases}
    else:
        is_of_metric = (
            (pl.col("judge") == judge)
            & (pl.col("metric") == metric.rpartition("/")[2])
            & (pl.col("part") == "")
        )
        scores = store.scan(run_id, "scores").filter(is_labelled & is_of_metric)
        rows = collect_rows(scores.select(*_KEY, "details", "failure_code"))
        reasons = {
            _key(row): (rationale(json.loads(row["details"] or "{}")), row["failure_code"])
            for row in rows.iter_rows(named=True)
        }
    facts = {}
    for row in cases:
        reason, code = reasons.get(_key(row), ("", None))
        facts[_key(row)] = ItemFacts(reason[:_REASON_CHARS], code, _groups(row))
    return facts


def _key(row: Mapping[str, Any]) -> tuple[str, int | None]:
    return row["case_id"], row["repetition"]


def _groups(row: Mapping[str, Any]) -> dict[str, str]:
    """The groups of a case: its agent, its version, and its tags under the names of trends."""
    groups = {name: row[name] for name in ("agent", "agent_version") if row[name]}
    tags = json.loads(row["tags"] or "{}")
    return groups | {f"tags.{name}": tags[name] for name in sorted(tags)[:_MAX_TAGS]}
