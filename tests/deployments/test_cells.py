"""CSV: no cell is a formula to a spreadsheet, numbers stay numbers, one module writes it."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.deployments.commands.sql import csv_text
from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.command import ROOT, assizes
from tests.hostile import CELLS, XSS
from tests.tasks.reports.sample import Said, run
from tests.tasks.stored_runs import put

DANGEROUS = re.compile(r"^[\s\u200b\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]")
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")
WRITERS = re.compile(
    r"write_csv|sink_csv|to_csv|csv\.(writer|DictWriter)|format\s+csv", re.IGNORECASE
)


def cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def formulas(text: str) -> list[str]:
    texts = [cell for row in cells(text) for cell in row]
    return [text for text in texts if DANGEROUS.search(text) and not NUMBER.fullmatch(text)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cells")
    texts = (*CELLS, *XSS)
    cases = [
        Said(text, (1, 2), done=False, outcomes=((text, False, text),), code=text, why=text,
             agent=text, tags={text: text}, tools=(text,))
        for text in texts
    ]  # fmt: skip
    cases += [Said(f"{text} lost", (0, 0), error=text) for text in texts]
    with open_store(StoreConfig(uri=f"duckdb:///{place}/s.duckdb"), writing=True) as store:
        put(store, run(cases))
    return place


@pytest.mark.parametrize("table", ["cases", "scores", "asks", "runs", "run_metrics", "rejects"])
def test_no_cell_of_a_table_is_a_formula(folder: Path, table: str):
    answer = assizes("sql", "s.duckdb", f"select * from {table}", "--csv", cwd=folder)
    assert (answer.code, answer.err) == (0, "")
    rows = cells(answer.out)
    assert len({len(row) for row in rows}) == 1
    assert len(rows) > len(CELLS) + len(XSS) or table in ("runs", "run_metrics", "rejects")
    assert formulas(answer.out) == []


def test_every_hostile_text_leaves_as_a_text(folder: Path):
    query = "select case_id from cases where status = 'judged' order by position"
    (head, *rows) = cells(assizes("sql", "s.duckdb", query, "--csv", cwd=folder).out)
    assert len(CELLS) >= 50
    assert (head, len(rows)) == (["case_id"], len(CELLS) + len(XSS))
    shown = [row[0] for row in rows][: len(CELLS)]
    assert shown[:4] == [f"'{text}" for text in CELLS[:4]]
    assert {cell for cell in shown if cell.startswith("'=")} >= {"'=", "'=1+1"}


def test_numbers_stay_numbers_and_what_is_not_there_is_empty(folder: Path):
    query = (
        "select -1.5 as a, -3 as b, null as c, true as d, '-3' as \"=e\", [1, -2] as f, 'x' as g"
    )
    answer = assizes("sql", "s.duckdb", query, "--csv", cwd=folder)
    assert cells(answer.out) == [
        ["a", "b", "c", "d", "'=e", "f", "g"],
        ["-1.5", "-3", "", "true", "'-3", "[1, -2]", "x"],
    ]


def test_json_and_csv_at_once_is_a_usage_error(folder: Path):
    answer = assizes("sql", "s.duckdb", "select 1", "--csv", "--json", cwd=folder)
    assert (answer.code, "give one of them" in answer.err) == (2, True)


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_any_text_is_no_formula_and_stays_in_its_cell(texts: list[str]):
    text = csv_text(texts, [texts])
    assert formulas(text) == []
    assert [len(row) for row in cells(text) if row] in ([len(texts)] * 2, [])


def test_nothing_else_of_the_product_writes_csv():
    writers = [
        f"{path.relative_to(ROOT)}"
        for part in ("judge", "tasks", "flows", "deployments")
        for path in (ROOT / part).rglob("*.py")
        if WRITERS.search(path.read_text("utf-8"))
    ]
    assert writers == ["deployments/commands/sql.py"]
