"""Scores about one turn are shown at its span, once, and what was sent before stays where it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assizes.judge.config.publishing import PublishConfig
from assizes.judge.config.run import StoreConfig
from assizes.tasks.publishing.deliveries import delivery_log
from assizes.tasks.publishing.destination import Destination
from assizes.tasks.publishing.entry import TraceTarget, turn_target
from assizes.tasks.publishing.langfuse import Langfuse
from assizes.tasks.publishing.mlflow import Mlflow
from assizes.tasks.publishing.phoenix import Phoenix
from assizes.tasks.publishing.publisher import Publisher, PublishReport
from assizes.tasks.store import open_store
from assizes.tasks.trace_stores.connection import connection_to
from assizes.tasks.trace_stores.http_client import JsonClient
from tests.doubles.json_server import JsonServer, Reply, Request, json_server
from tests.doubles.langfuse_scores import KEYS, LangfuseScores
from tests.tasks.publishing.sample import RUN_ID, TRACES, stored, traced_run
from tests.tasks.reports.sample import Run

pytestmark = pytest.mark.data

SPANS = ("00000000000000a0", "00000000000000a1")
METRIC = "tool_routing"


def with_spans(made: Run, prefix: str = "", *, parts: bool = False) -> Run:
    """A run whose first case has a span for each turn, and a score about its second turn."""
    first = TRACES[0]
    spans = [f"{prefix}{first}/{span}" for span in SPANS]
    cases = made.frames["cases"].with_columns(
        turn_spans=pl.when(pl.col("case_id") == first)
        .then(pl.lit(spans, dtype=pl.List(pl.String)))
        .otherwise(None)
    )
    is_about = (pl.col("case_id") == first) & (pl.col("metric") == METRIC)
    turns = pl.when(is_about).then(pl.lit([1], dtype=pl.List(pl.Int32)))
    scores = made.frames["scores"].with_columns(turns=turns.otherwise(pl.col("turns")))
    if parts:
        own = scores.filter(is_about & (pl.col("part") == ""))
        scores = pl.concat([scores, own.with_columns(part=pl.lit("turn:1"))])
    return replace(made, frames={**made.frames, "cases": cases, "scores": scores})


def publish(config: StoreConfig, place: Destination) -> PublishReport:
    with open_store(config) as store:
        publisher = Publisher(store, delivery_log(config), PublishConfig())
        return publisher.publish(store.run(RUN_ID), destination=place)


@pytest.fixture
def langfuse() -> Iterator[tuple[LangfuseScores, JsonServer]]:
    double = LangfuseScores("lists")
    with json_server(double.answer) as server:
        yield double, server


def langfuse_at(server: JsonServer) -> Langfuse:
    connection = connection_to("langfuse", {**KEYS, "LANGFUSE_BASE_URL": server.url})
    return Langfuse(JsonClient(connection, sleep=lambda _: None))


def at_spans(double: LangfuseScores) -> dict[str, str]:
    scores = double.scores.values()
    return {s["name"]: s["observationId"] for s in scores if s.get("observationId")}


def test_langfuse_shows_it_at_the_observation(
    tmp_path: Path, langfuse: tuple[LangfuseScores, JsonServer]
):
    double, server = langfuse
    config = stored(tmp_path, with_spans(traced_run(), parts=True))
    report = publish(config, langfuse_at(server))

    assert dict(report.sent) == {"score": 12 + 1, "verdict": 4}
    assert at_spans(double) == {METRIC: SPANS[1], f"{METRIC}/turn": SPANS[1]}
    assert {s["traceId"] for s in double.scores.values()} == set(TRACES)
    again = publish(config, langfuse_at(server))
    assert (again.unchanged, dict(again.sent), double.writes) == (17, {}, 17)


def test_a_part_whose_span_is_not_known_is_not_sent(
    tmp_path: Path, langfuse: tuple[LangfuseScores, JsonServer]
):
    double, server = langfuse
    made = with_spans(traced_run(), parts=True)
    cases = made.frames["cases"].with_columns(turn_spans=pl.lit(None, pl.List(pl.String)))
    config = stored(tmp_path, replace(made, frames={**made.frames, "cases": cases}))
    assert dict(publish(config, langfuse_at(server)).sent) == {"score": 12, "verdict": 4}
    assert at_spans(double) == {}


@pytest.mark.full
def test_what_was_sent_to_the_trace_before_stays_there(
    tmp_path: Path, langfuse: tuple[LangfuseScores, JsonServer]
):
    """An earlier version knew no spans; a changed score replaces its own one, wherever that is."""
    double, server = langfuse
    made = traced_run()
    old, new, changed = (tmp_path / name for name in ("old", "new", "changed"))
    for folder in (old, new, changed):
        folder.mkdir()
    before = stored(old, made)
    publish(before, langfuse_at(server))
    log = delivery_log(before).rows(RUN_ID).to_dicts()
    for folder, value in ((new, 1.0), (changed, 0.25)):
        run = with_spans(made)
        is_it = (pl.col("case_id") == TRACES[0]) & (pl.col("metric") == METRIC)
        kept = pl.col("value") if folder == new else pl.lit(value)
        scores = run.frames["scores"].with_columns(
            value=pl.when(is_it).then(kept).otherwise(pl.col("value"))
        )
        config = stored(folder, replace(run, frames={**run.frames, "scores": scores}))
        for row in log:
            delivery_log(config).add(
                RUN_ID, [{k: v for k, v in row.items() if k not in ("run_id", "at")}]
            )
        report = publish(config, langfuse_at(server))
        assert report.sent["score"] == (0 if folder == new else 1)
        assert len(double.scores) == 16
        assert at_spans(double) == {}


def test_phoenix_shows_it_at_the_span(tmp_path: Path):
    sent: list[tuple[str, dict[str, Any]]] = []

    def answer(request: Request) -> Reply:
        data = request.body["data"]
        sent.extend((request.path, each) for each in data)
        return Reply(200, {"data": [{"id": str(n)} for n in range(len(data))]})

    config = stored(tmp_path, with_spans(traced_run()))
    with json_server(answer) as server:
        connection = connection_to("phoenix", {"PHOENIX_COLLECTOR_ENDPOINT": server.url})
        publish(config, Phoenix("support", JsonClient(connection)))
    (own,) = [each for path, each in sent if path == "/v1/span_annotations"]
    assert (own["span_id"], own["name"]) == (SPANS[1], METRIC)
    assert len(sent) == 16
    assert {path for path, _ in sent} == {"/v1/span_annotations", "/v1/trace_annotations"}


def test_mlflow_shows_it_at_the_span_of_its_trace(tmp_path: Path):
    sent: list[dict[str, Any]] = []

    def answer(request: Request) -> Reply:
        sent.append(request.body["assessment"])
        return Reply(200, {"assessment": {"assessment_id": f"a-{len(sent)}"}})

    config = stored(tmp_path, with_spans(traced_run(), prefix="tr-"))
    with json_server(answer) as server:
        connection = connection_to("mlflow", {"MLFLOW_TRACKING_URI": server.url})
        publish(config, Mlflow("support", JsonClient(connection)))
    (own,) = [each for each in sent if "span_id" in each]
    assert (own["trace_id"], own["span_id"]) == (f"tr-{TRACES[0]}", SPANS[1])
    assert own["assessment_name"] == METRIC
    assert len(sent) == 16


@pytest.mark.parametrize(
    ("turns", "target", "span"),
    [
        ((1,), TraceTarget(trace_id="t"), "b"),
        ((1,), TraceTarget(session_id="s"), "b"),
        ((2,), TraceTarget(session_id="s"), "c"),
        ((1, 1), TraceTarget(trace_id="t"), "b"),
        ((), TraceTarget(trace_id="t"), None),
        ((0, 1), TraceTarget(trace_id="t"), None),
        ((3,), TraceTarget(trace_id="t"), None),  # of this turn the trace alone is known
        ((9,), TraceTarget(trace_id="t"), None),
        ((-1,), TraceTarget(trace_id="t"), None),
        ((1,), TraceTarget(trace_id="of somebody else"), None),
        ((1,), TraceTarget(trace_id="t", span_id="stated"), None),
    ],
)
def test_one_turn_has_one_span(turns: tuple[int, ...], target: TraceTarget, span: str | None):
    case = {"turn_spans": ["t/a", "t/b", "u/c", "t/"]}
    found = turn_target(case, turns, target)
    assert (found and found.span_id) == span
    if found is not None:
        assert found.trace_id == ("u" if span == "c" else "t")
