"""The page of the labels of a run: progress by rater and metric, disagreements, and a CSV file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import polars as pl
from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, ConfigDict

from assizes.deployments.commands.sql import csv_text
from assizes.deployments.web import desk_data
from assizes.deployments.web.desk_data import Dispute, LabelScale
from assizes.deployments.web.forms import KnownName, parse_form
from assizes.deployments.web.labelling.desk import PATHS
from assizes.deployments.web.pages import FormFields, page_response
from assizes.deployments.web.people_schemas import RunName
from assizes.deployments.web.read_routes import StoreReader, StoreReaderDep
from assizes.judge.config.gates import VERDICT
from assizes.judge.errors import ConfigurationError
from assizes.tasks.reports.formatting import clean
from assizes.tasks.runs.labels.people_labels import exported_labels
from assizes.tasks.store import Store

router = APIRouter(include_in_schema=False)

_SHOWN: Final = 100  # disagreements of a metric that are listed, at most
_NOTE_CHARS: Final = 300
_COLUMNS: Final = (
    *("case_id", "repetition", "metric", "rater", "role", "label", "note", "at", "seconds"),
    *("blind", "probability", "queue_id"),
)
"""Columns of the CSV file; `assizes calibrate` reads the first ones as they are."""


class LabelsPageQuery(BaseModel):
    """The run whose labels the page shows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: RunName | None = None


@router.get("/view/labels")
def labels(reader: StoreReaderDep, form: FormFields, known: KnownName) -> HTMLResponse:
    """Who has labelled how much of a run, and where raters disagree."""
    wanted = parse_form(LabelsPageQuery, form)

    def read(store: Store) -> dict[str, Any]:
        run_id = store.run(wanted.run or "latest").run_id
        current = reader.people.labels(current=True).filter(pl.col("run_id") == run_id)
        names = desk_data.metric_names(store, run_id)
        labelled = sorted(set(current["metric"]) - {VERDICT})
        return {
            "run_id": run_id,
            "metrics": [VERDICT, *names],
            "tables": [
                _metric_table(store, run_id, metric, current)
                for metric in (VERDICT, *labelled)
                if not current.filter(pl.col("metric") == metric).is_empty()
            ],
            "queues": _queue_lines(reader, run_id, current),
            "export_url": f"/view/labels/export?{urlencode({'run': run_id})}",
        }

    data = {**reader.read_store(read), "name": known, "labelling": reader.labelling}
    return page_response("labels", data, "/view/labels", data["run_id"])


def _metric_table(store: Store, run_id: str, metric: str, current: pl.DataFrame) -> dict[str, Any]:
    """The raters of one metric and the cases that they disagree about."""
    rows = current.filter(pl.col("metric") == metric)
    try:
        scale = desk_data.label_scale(store, run_id, metric)
    except ConfigurationError:  # labels of a metric that this run never scored
        scale = LabelScale(metric, (), pl.lit(value=False))
    disputes = desk_data.disagreements(rows)
    url = f"{PATHS['adjudicator']}?{urlencode({'run': run_id, 'metric': metric})}"
    return {
        "metric": metric,
        "cases": rows.filter(pl.col("kind") == "label").n_unique(["case_id", "repetition"]),
        "raters": desk_data.rater_lines(rows, desk_data.judge_values(store, run_id, scale)),
        "disagreements": len(disputes),
        "open": sum(dispute.settled is None for dispute in disputes.values()),
        "disputes": [_dispute_line(item, scale, url) for item in list(disputes.values())[:_SHOWN]],
        "adjudicate_url": url,
    }


def _dispute_line(item: Dispute, scale: LabelScale, url: str) -> dict[str, Any]:
    case_id, repetition = item.key
    return {
        "case_id": case_id,
        "repetition": repetition,
        "url": f"{url}&{urlencode({'case': case_id, 'repetition': repetition})}",
        "labels": [_said(row, scale) for row in item.labels],
        "settled": None if item.settled is None else _said(item.settled, scale),
    }


def _said(row: Mapping[str, Any], scale: LabelScale) -> dict[str, str]:
    note = clean(row["note"], _NOTE_CHARS)
    return {"rater": row["rater"], "word": scale.word(row["value"]), "note": note}


def _queue_lines(reader: StoreReader, run_id: str, current: pl.DataFrame) -> list[dict[str, Any]]:
    """A line for each queue of a run: its size, and how many of its cases have a label."""
    labelled = set(
        current.filter(pl.col("kind") == "label").select("metric", "case_id", "repetition").rows()
    )
    lines = []
    queues = reader.people.queues().filter(pl.col("run_id") == run_id)
    for (queue_id, metric), rows in queues.group_by("queue_id", "metric", maintain_order=True):
        keys = rows.select("metric", "case_id", "repetition").rows()
        fields = {"run": run_id, "metric": str(metric), "queue": str(queue_id)}
        lines.append(
            {
                "queue_id": queue_id,
                "metric": metric,
                "cases": len(keys),
                "labelled": sum(key in labelled for key in keys),
                "at": rows["at"].min(),
                "drawn_by": rows["drawn_by"][0],
                "url": f"{PATHS['rater']}?{urlencode(fields)}",
            }
        )
    return lines


@router.get("/view/labels/export")
def export(reader: StoreReaderDep, run: Annotated[RunName, Query()]) -> Response:
    """The current labels of a run as a CSV file, which `assizes calibrate` reads."""
    rows = reader.read_store(lambda store: exported_labels(store, store.run(run).run_id))
    ordered = rows.sort("metric", "case_id", "repetition", "rater")
    text = csv_text(_COLUMNS, ordered.select(_COLUMNS).rows())
    headers = {"Content-Disposition": 'attachment; filename="labels.csv"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)
