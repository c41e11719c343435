"""`assizes judge-tables`: recorded judges of others, the floor, and a model that is asked now."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from jsonschema import Draft202012Validator

from assizes.deployments.documents.table import document_schema
from assizes.deployments.recorded.judge_tables import AskedModel, answers_of_model
from assizes.judge.config.judging import OFFLINE_MODEL
from assizes.judge.errors import ConfigurationError
from assizes.tasks.recorded.files import FILES
from assizes.tasks.recorded.table import MEASURES, worth_row
from tests.command import assizes
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer

ROOT = Path(__file__).resolve().parents[2]

JUDGES = (
    *("groundedness", "correctness", "safety", "relevance_to_query"),
    *("relevance_to_query", "pairwise", "answer_criteria", "answer_criteria"),
)
"""The product's judges in the order in which they are asked."""

REQUESTS = 3 + 3 + 2 + 3 + 6 + 6 + 9 + 6
"""Requests about three items of each task: criteria are split once, two answers are equal."""

SETTINGS = """
[limits.prices."openai/stub"]
input_usd_per_million = {usd}
output_usd_per_million = {usd}
"""


@pytest.fixture(scope="module")
def out(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the command writes, and its document as tables.json."""
    folder = tmp_path_factory.mktemp("tables")
    words = ("judge-tables", "--json", "--out", str(folder))
    answer = assizes(*words, cwd=folder, env={"ASSIZES_DATA": str(data)})
    assert answer.code == 0, answer
    (folder / "tables.json").write_text(answer.out, encoding="utf-8")
    return folder


@pytest.mark.data
def test_the_page_of_the_documentation_is_what_the_command_writes(out: Path):
    page = (out / "judge-tables.md").read_text(encoding="utf-8")
    assert page == (ROOT / "docs" / "judge-tables.md").read_text(encoding="utf-8"), (
        "make judge-tables writes it anew"
    )


@pytest.mark.full
@pytest.mark.data
def test_every_published_figure_comes_out_equal_and_the_document_fits_its_schema(out: Path):
    tables = json.loads((out / "tables.json").read_text(encoding="utf-8"))
    Draft202012Validator(document_schema("judge-tables")).validate(tables)
    figures = tables["figures"]
    assert len(figures) == 511
    assert [one for one in figures if one["published"] != one["ours"]] == []
    assert {gap["dataset"] for gap in tables["not_reproduced"]} == {
        *("LLMJudge", "LLMBar", "DevAI", "XSTest")
    }
    gaps = [gap["what"] for gap in tables["not_reproduced"] if gap["dataset"] == "LLMJudge"]
    runs = {row["judge"] for row in tables["rows"] if row["dataset"] == "LLMJudge"}
    assert len(gaps) + len(runs) == 33  # all that were published, each once
    assert not {gap.removeprefix("kappa and alpha of ") for gap in gaps} & runs


@pytest.mark.full
@pytest.mark.data
def test_the_parquet_table_has_every_judge_with_intervals(out: Path):
    assert set(FILES) <= {path.name for path in out.iterdir()}
    table = pl.read_parquet(out / "judge-tables.parquet")
    assert {f"{name}{end}" for name in MEASURES for end in ("", "_low", "_high")} <= {
        *table.columns
    }
    recorded = table.filter(pl.col("kind") == "recorded")
    assert recorded.group_by("dataset").len().sort("dataset").rows() == [
        ("DevAI", 3),
        ("LLMBar", 20),
        ("LLMJudge", 17),
        ("PandaLM", 2),
        ("XSTest", 12),
        ("tau2 airline", 4),
        ("tau3 truth", 5),
    ]
    known = table.filter(pl.col("kappa").is_not_null())
    assert known.filter(pl.col("kappa_low") > pl.col("kappa_high")).is_empty()
    figures = pl.read_parquet(out / "published-figures.parquet")
    assert figures["equal"].all()


@pytest.mark.full
@pytest.mark.data
def test_the_floor_is_in_the_tables(out: Path):
    table = pl.read_parquet(out / "judge-tables.parquet").filter(pl.col("kind") == "floor")
    rows = table.select("dataset", "judge", "items").rows()
    assert [(name, judge.removeprefix(f"{OFFLINE_MODEL}, "), n) for name, judge, n in rows] == [
        ("DevAI", "answer_criteria", 732),
        ("XSTest", "safety", 600),
        ("XSTest", "relevance_to_query", 750),
        ("ExpertQA", "groundedness", 741),
        ("ExpertQA", "correctness", 1099),
        ("LLMBar", "relevance_to_query", 100),
        ("LLMBar", "pairwise", 200),  # both orders
        ("LLMBar", "answer_criteria", 100),
    ]
    pairs = table.filter(pl.col("judge").str.ends_with("pairwise")).to_dicts()[0]
    assert (pairs["flips"], pairs["first_shown"]) == (0, 0.5)  # the rule prefers no place
    assert pairs["both_read"] == 49  # of 100: in the others both outputs have as many words


@pytest.mark.data
def test_the_chart_is_an_image_with_the_names_of_judges(out: Path):
    chart = (out / "judge-tables.svg").read_text(encoding="utf-8")
    assert chart.startswith("<svg")
    assert "pandalm-7b" in chart
    assert "DevAI: requirement met" in chart


def test_without_the_data_one_line_says_where_it_would_lie(tmp_path: Path):
    answer = assizes("judge-tables", cwd=tmp_path, env={"ASSIZES_DATA": ""})
    assert answer.code == 2
    (line,) = answer.err.strip().splitlines()
    assert "set ASSIZES_DATA to the folder that holds llmjudge_dl23" in line


def test_options_about_the_model_need_a_model(tmp_path: Path):
    answer = assizes("judge-tables", "--limit", "3", cwd=tmp_path)
    assert answer.code == 2
    assert "are about --model, which is not given" in answer.err


@pytest.fixture
def priced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge_server: OpenAIServer):
    """A function that gives the model of the stub server at this price, with its bounds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)

    def asked(usd_per_million: float, budget_usd: float, limit: int = 3) -> AskedModel:
        config = tmp_path / "priced.toml"
        config.write_text(SETTINGS.format(usd=usd_per_million), encoding="utf-8")
        return AskedModel("openai/stub", judge_server.api_base, budget_usd, limit, config)

    return asked


@pytest.mark.full
@pytest.mark.data
def test_a_model_is_asked_about_the_same_items_once(data: Path, priced, judge_server: OpenAIServer):
    asked = priced(1.0, 1.0)
    judged = answers_of_model(data, asked)
    assert [items.judge for items in judged] == [f"openai/stub, {judge}" for judge in JUDGES]
    assert {items.kind for items in judged} == {"model"}
    rows = [worth_row(items) for items in judged]
    assert [row.items for row in rows] == [3, 3, 3, 3, 3, 6, 3, 3]
    # The model of the server names the output that it is shown first, whatever it says.
    pairs = rows[JUDGES.index("pairwise")]
    assert (pairs.flips, pairs.both_read, pairs.first_shown) == (3, 3, 1.0)
    requests = judge_server.stats()["requests"]
    assert requests == REQUESTS

    assert answers_of_model(data, asked) == judged
    assert judge_server.stats()["requests"] == requests  # the reply cache answers


@pytest.mark.data
def test_a_budget_ends_the_asking_and_says_so(
    data: Path, priced, judge_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
):
    judged = answers_of_model(data, priced(60.0, 2.0, limit=30))
    asked = sum(not item.missing for one in judged for item in one.items)
    assert 0 < asked < len(JUDGES) * 30
    assert judge_server.stats()["requests"] < 30 * 3 + 60
    captured = capsys.readouterr()
    assert "openai/stub: budget: [limits] budget_usd" in captured.err
    assert captured.out == ""  # where a document is printed


@pytest.mark.data
def test_a_model_without_a_price_is_refused_before_it_is_asked(
    data: Path, priced, judge_server: OpenAIServer
):
    asked = priced(1.0, 1.0)
    asked.config.write_text("", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="price"):
        answers_of_model(data, asked)
    assert judge_server.stats()["requests"] == 0
