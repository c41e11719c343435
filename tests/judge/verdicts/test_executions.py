from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawn import examples
from tests.judge.run_frames import case_row, outcomes, summary_of

FEW = examples(40)


@pytest.mark.row("001-48")
def test_latency_figures_are_over_the_medians_of_the_cases():
    summary = summary_of(
        [case_row(f"c{ms}", agent_latency_ms=ms) for ms in (100.0, 200.0, 300.0)]
        + [case_row("unmeasured")]
    )
    figures = (summary.latency_p50_ms, summary.latency_avg_ms, summary.latency_max_ms)
    assert figures == (200.0, 200.0, 300.0)


def test_without_latencies_the_figures_are_null():
    summary = summary_of(outcomes(2))
    assert summary.latency_p50_ms is summary.latency_p95_ms is None
    assert summary.latency_max_ms is summary.latency_avg_ms is None


def duckdb_p95(latencies):
    with duckdb.connect() as database:
        row = database.execute(
            "select quantile_cont(ms, 0.95) from (select unnest(?::double[]) as ms)", [latencies]
        ).fetchone()
    assert row is not None
    return row[0]


def p95(latencies):
    cases = [case_row(f"c{i}", agent_latency_ms=ms) for i, ms in enumerate(latencies)]
    return summary_of(cases).latency_p95_ms


@pytest.mark.row("001-49")
def test_p95_has_one_definition_here_and_in_duckdb():
    latencies = [float(ms) for ms in range(100, 2001, 100)]
    assert p95(latencies) == duckdb_p95(latencies) == 1905.0


@FEW
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_p95_equals_duckdbs_whatever_the_values(latencies):
    assert p95(latencies) == pytest.approx(duckdb_p95(latencies), abs=1e-8)
