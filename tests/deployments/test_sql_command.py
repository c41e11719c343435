"""`assizes sql` and `results`: a table never leaves out a column without saying so."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.rows import TABLES
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.outward import PYTHONPATH
from tests.tasks.reports.sample_families import families_run
from tests.tasks.stored_runs import put

RUN = families_run()
QUERY = "select * from scores order by all limit 3"
COLUMNS = list(TABLES["scores"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sql")
    with open_store(StoreConfig(uri=f"duckdb:///{place}/s.duckdb"), writing=True) as store:
        put(store, RUN)
    return place


@pytest.mark.parametrize("width", [20, 80, 160])
def test_a_narrow_terminal_shows_the_first_columns_and_names_the_others(folder: Path, width: int):
    answer = assizes("sql", "s.duckdb", QUERY, cwd=folder, env={"COLUMNS": str(width)})
    assert answer.code == 0, answer
    *table, note = answer.out.rstrip().splitlines()
    begin = f" of {len(COLUMNS)} columns have no room in {width} characters and are not shown: "
    count, _, rest = note.partition(begin)
    names, _, ways = rest.partition("; ")
    left_out = names.split(", ")
    assert left_out == COLUMNS[-int(count) :]
    assert ways == "--all prints every column, and so do --csv and --json"
    first = COLUMNS[0]
    assert any(line.split() and line.split()[0] == first for line in table)
    assert RUN.record.run_id in answer.out  # the first column is never cut
    assert max(map(len, table)) <= max(width, len(RUN.record.run_id) + 2)


def test_a_table_that_has_room_is_whole_and_says_nothing(folder: Path):
    query = "select run_id, name, value from run_metrics limit 2"
    answer = assizes("sql", "s.duckdb", query, cwd=folder)
    assert answer.out.split()[:3] == ["run_id", "name", "value"]
    assert "not shown" not in answer.out


def test_all_prints_each_column_of_each_row_on_a_line(folder: Path):
    answer = assizes("sql", "s.duckdb", QUERY, "--all", cwd=folder, env={"COLUMNS": "40"})
    rows = json.loads(assizes("sql", "s.duckdb", QUERY, "--json", cwd=folder).out)
    lines = answer.out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        f"row {number} of 3" for number in (1, 2, 3)
    ]
    assert [line.split()[0] for line in lines if line.startswith(" ")] == COLUMNS * 3
    assert lines[1].split() == ["run_id", rows[0]["run_id"]]
    nothing = next(name for name, value in rows[0].items() if value is None)
    assert lines[1 + COLUMNS.index(nothing)].split() == [nothing, "-"]


def test_what_goes_to_no_terminal_has_room_for_every_column(folder: Path):
    program = (sys.executable, "-m", "assizes.deployments.cli", "sql", "s.duckdb", QUERY)
    done = subprocess.run(
        program,
        cwd=folder,
        env={"PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        check=True,
    )
    head = next(line for line in done.stdout.splitlines() if line.strip())
    assert head.split() == COLUMNS
    assert "not shown" not in done.stdout


def test_the_table_of_results_says_that_reasons_are_left_out(folder: Path):
    command = ("results", RUN.record.run_id, "--store", "duckdb:///s.duckdb")
    wide = {"COLUMNS": "400"}
    answer = assizes(*command, cwd=folder, env=wide)
    whole = list(json.loads(assizes(*command, "--json", cwd=folder).out)[0])
    count = sum(
        re.search("/(ratings|rationales?|error_messages?)$", name) is not None for name in whole
    )
    assert f"not shown: {count} columns with the judges' reasons, errors and ratings" in answer.out
    shown = assizes(*command, "--all", cwd=folder).out.splitlines()
    first = shown[1 : shown.index(next(line for line in shown if line.startswith("row 2")))]
    assert [line.split()[0] for line in first] == whole


def test_json_is_valid_where_numbers_are_not_finite_or_long(folder: Path):
    most = 2**127 - 1
    query = (
        f"select 'nan'::double x, ['-inf'::float, 1.5] l, {most}::hugeint h, interval 1 day d, "
        "{'a': 0.5} s"
    )
    answer = assizes("sql", "s.duckdb", query, "--json", cwd=folder)
    assert (answer.code, answer.err) == (0, "")
    (row,) = json.loads(answer.out, parse_constant=pytest.fail)
    assert row == {"x": None, "l": [None, 1.5], "h": most, "d": "1 day", "s": {"a": 0.5}}
    as_csv = assizes("sql", "s.duckdb", query, "--csv", cwd=folder).out.splitlines()[1]
    assert as_csv == f'nan,"[null, 1.5]",{most},1 day,"{{""a"": 0.5}}"'


@pytest.mark.parametrize("seconds", ["inf", "nan", "1e300", "1e10"])
def test_a_timeout_is_a_number_of_seconds_within_a_bound(folder: Path, seconds: str):
    answer = assizes("sql", "s.duckdb", "select 1", "--timeout", seconds, cwd=folder)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert "'--timeout'" in answer.err
