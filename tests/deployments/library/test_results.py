"""What `assizes.evaluate` returns, and how it looks in a terminal and in a notebook."""

from __future__ import annotations

import gc
import importlib.util
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

import assizes
from assizes.deployments.library import results
from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import ConfigurationError, UnknownCase, UnknownRun
from assizes.tasks.store import open_store
from tests.deployments.library.logs import logs

EXPECTED = "It is on its way."


@pytest.fixture(scope="module")
def evaluations(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[assizes.Evaluation, assizes.Evaluation]:
    """A result, and that of an agent that gives up more often; one in a store, one in none."""
    folder = tmp_path_factory.mktemp("results")
    rows = [
        {"request_id": f"q{n}", "request": f"Where is order {n}?", "expected_response": EXPECTED}
        for n in range(12)
    ]
    judged = [
        [
            row | {"response": EXPECTED if n % every else "I cannot help."}
            for n, row in enumerate(rows)
        ]
        for every in (6, 2)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        store = folder / "s.duckdb"
        before = assizes.evaluate(judged[0], judges=["correctness"], store=store)
        return before, assizes.evaluate(judged[1], judges=["correctness"])


def test_a_frame_has_a_score_for_each_case_and_metric(evaluations):
    frame = evaluations[0].to_polars()
    assert frame.columns[:3] == ["case_id", "repetition", "metric"]
    assert frame["label"].value_counts().sort("label").rows() == [("no", 2), ("yes", 10)]
    assert frame["explanation"].null_count() == 0
    assert evaluations[0].to_polars("cases").height == 12
    with pytest.raises(ConfigurationError, match="unknown table 'score'; known: asks, cases"):
        evaluations[0].to_polars("score")


def test_a_case_explains_a_metric_by_its_prompt_and_its_reply(evaluations):
    case = evaluations[1].case("q0")
    assert (case.passed, case.conversation().transcript.response()) == (False, "I cannot help.")
    explanation = case.explain("correctness")
    assert "Where is order 0?" in explanation.prompts[0]
    assert "---- reply" in repr(explanation)
    assert "&lt;" in explanation._repr_html_()
    assert "correctness" in repr(case)
    with pytest.raises(UnknownCase, match="no case 'q99'; case_ids has them all: q0, q1, q10,"):
        evaluations[1].case("q99")
    with pytest.raises(ConfigurationError, match="unknown metric 'safety'; known: correctness"):
        case.explain("safety")
    with pytest.raises(ConfigurationError, match="unknown repetition '3'; known: 0"):
        evaluations[1].case("q0", 3)


def test_two_results_are_compared_wherever_their_rows_are(evaluations, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before, after = evaluations
    comparison = before.compare(after)
    assert comparison.verdict.ending == "regressed"
    assert repr(comparison.verdict).startswith("regression: pass rate fell from 83.3 % to 50.0 %")
    assert comparison.case_counts.matched == 12
    assert after.compare(before).verdict.conclusion == "not worse"
    loose = before.compare(after, {"max_pass_rate_drop": 0.5})
    assert loose.verdict.thresholds_used["max_pass_rate_drop"] == 0.5
    with pytest.raises(ConfigurationError, match="thresholds: max_drop: .*known: baseline"):
        before.compare(after, {"max_drop": 0.5})
    other = before.compare(assizes.evaluate(logs(1)))
    assert other.verdict.why[-1].endswith(
        "compare(candidate, {'allow': True}) compares all the same"
    )
    same_store = before.compare(assizes.load_run(before.run_id, before._store.uri))
    assert same_store.verdict.conclusion == "not worse"


def label_cases(uri: str, run_id: str, values: list[float]) -> None:
    """Labels of a person on the verdicts of the first cases, drawn with the chance 1."""
    alike = {"repetition": 0, "metric": "verdict", "rater": "ann", "role": "rater", "shown": "{}"}
    alike |= {"kind": "label", "probability": 1.0, "at": datetime(2026, 3, 4, tzinfo=UTC)}
    rows = [
        alike | {"label_id": f"{run_id}-{n}", "run_id": run_id, "case_id": f"q{n}", "value": value}
        for n, value in enumerate(values)
    ]
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        store.people.add("labels", rows)


def test_a_comparison_says_what_labels_of_people_correct(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"request_id": f"q{n}", "request": f"Where is order {n}?", "expected_response": EXPECTED}
        for n in range(40)
    ]
    before, after = (
        assizes.evaluate(
            [row | {"response": f"{EXPECTED}{more}"} for row in rows],
            judges=["correctness"],
            store=tmp_path / "s.duckdb",
        )
        for more in ("", " " * 2)
    )
    assert before.compare(after).corrected is None
    assert before.compare(after).corrected_lines == ()
    label_cases(before._store.uri, before.run_id, [1.0] * 40)
    label_cases(after._store.uri, after.run_id, [float(n % 2) for n in range(40)])
    comparison = before.compare(after)
    assert comparison.verdict.conclusion == "not worse"
    (change,) = comparison.corrected.changes
    assert (change.measure, change.raw, change.word) == ("pass_rate", 0, "regressed")
    assert change.high < 0
    assert comparison.corrected.sentence in comparison.corrected_lines[0]
    assert f"corrected by labels: {change.line}" in repr(comparison)
    assert "corrected by labels: pass rate" in comparison._repr_html_()
    decided = before.compare(after, {"verdict": "corrected"})
    assert (decided.verdict.conclusion, decided.corrected.decides) == ("regression", True)


def test_the_wide_table_has_the_published_columns_and_the_verdict(evaluations):
    wide = evaluations[0].wide()
    assert wide.columns[:2] == ["request_id", "repetition"]
    assert wide["response/llm_judged/correctness/rating"].value_counts().height == 2
    assert wide["passed"].sum() == 10


def test_the_wide_table_has_a_column_for_each_metric_without_a_published_name(
    tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    wide = assizes.evaluate(logs(2)).wide()
    assert wide["conversation/response_delivery"].null_count() == 0
    assert wide["conversation/tool_routing"].null_count() == 2
    assert wide["request_id"].to_list() == ["c0", "c1"]


def test_results_are_shown_as_html_with_everything_escaped(evaluations):
    before, after = evaluations
    for shown in (before, before.summary, before.compare(after), before.compare(after).verdict):
        html = shown._repr_html_()
        assert html.startswith("<div>")
        assert html.count("<div") == html.count("</div>")
        assert repr(shown)
    assert "cases that failed: q0, q6; .case('q0') shows why" in repr(before)
    assert "correctness" in str(before.summary)


def test_html_in_an_id_is_text_in_a_notebook(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    named = [logs(1)[0] | {"id": "<script>alert(1)</script>"}]
    result = assizes.evaluate(named, config={"judge": {"pass_threshold": 100}})
    assert "<script>" not in result._repr_html_()
    assert "&lt;script&gt;" in result._repr_html_()


@pytest.mark.full
def test_rows_of_a_result_without_a_store_go_with_it(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = assizes.evaluate(logs(1))
    case = result.case("c0")
    (folder,) = tmp_path.glob("assizes-*")
    del result
    gc.collect()
    assert case.conversation().case_id == "c0"  # a case keeps its result
    del case
    gc.collect()
    assert not folder.exists()


def test_a_run_that_is_not_there_is_named(tmp_path: Path):
    with assizes.open_store(StoreConfig(uri=f"duckdb:///{tmp_path}/s.duckdb"), writing=True):
        pass
    with pytest.raises(UnknownRun, match="no run 'nightly'"):
        assizes.load_run("nightly", tmp_path / "s.duckdb")


@pytest.mark.skipif(importlib.util.find_spec("pandas") is not None, reason="pandas is installed")
def test_without_pandas_the_error_says_what_to_do(evaluations):
    with pytest.raises(ConfigurationError, match=r"`pip install pandas`, or use to_polars\(\)"):
        evaluations[0].to_pandas()


def test_a_pandas_frame_has_types_that_know_missing_values():
    pandas = pytest.importorskip("pandas")
    frame = pl.DataFrame({"a": [1, None], "b": [True, None], "c": ["x", None], "d": [[1], None]})
    converted = results.pandas_frame(frame)
    assert [str(kind) for kind in converted.dtypes][:3] == ["Int64", "boolean", "string"]
    assert converted["a"].isna().tolist() == [False, True]
    assert converted["d"][0] == [1]
    assert isinstance(converted, pandas.DataFrame)


@pytest.mark.full
def test_a_pandas_frame_is_judged_as_its_rows_are(tmp_path: Path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    frame = pandas.DataFrame(logs(2))
    assert assizes.evaluate(frame).case_ids == ["c0", "c1"]
    assert len(assizes.evaluate(logs(2)).to_pandas()) == len(assizes.evaluate(logs(2)).to_polars())
