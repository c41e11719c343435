"""The tables in other tools: DuckDB over a lake, dbt, Grafana, PostgreSQL."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
import yaml

from assizes.judge.rows import TABLES
from tests.command import ROOT, assizes

pytestmark = pytest.mark.xdist_group("tables")

FOLDER = ROOT / "deployments/tables"
BOTH = ("--set", "runner.shard_size=4", "--set", "transcripts.uri=made/demo-v1.jsonl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The DuckDB store of the demo, and a lake with two runs, of which one was compacted."""
    place = tmp_path_factory.mktemp("tables")
    made = assizes("demo", "--folder", "made", cwd=place)
    assert made.code == 0, made.err
    for limit in ("9", "5"):
        where = ("--set", "store.uri=lake", "--set", f"transcripts.limit={limit}")
        judged = assizes("run", *BOTH, *where, "--set", f"name=run{limit}", cwd=place)
        assert judged.code in (0, 1), judged.err
    assert assizes("store", "compact", "run9", "--store", "lake", cwd=place).code == 0
    return place


@pytest.mark.full
def test_the_views_of_a_lake_hold_committed_rows_of_each_run_once(folder: Path):
    (run,) = (folder / "lake/runs").glob("run5-*")
    (part, *_) = sorted((run / "parts").glob("cases-*.parquet"))
    shutil.copy(part, part.with_name("cases-000009-lost.parquet"))  # a writer that died
    lake = duckdb.connect()
    lake.execute(f"SET VARIABLE lake = '{folder}/lake'")
    lake.execute((FOLDER / "lake.sql").read_text())
    shown = lake.execute("SELECT run_id, count(*) FROM cases GROUP BY ALL ORDER BY 2").fetchall()
    assert [(name.partition("-")[0], count) for name, count in shown] == [("run5", 5), ("run9", 9)]
    for table in ("scores", "asks"):
        ours = assizes("sql", "lake", f"select count(*) as n from {table}", "--json", cwd=folder)
        (count,) = lake.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert [{"n": count}] == json.loads(ours.out)
        columns = [row[0] for row in lake.execute(f"DESCRIBE {table}").fetchall()]
        assert set(columns) == set(TABLES[table])


@pytest.mark.full
def test_the_sources_of_dbt_are_the_tables_and_columns_of_a_store(folder: Path):
    document = yaml.safe_load((FOLDER / "sources.yml").read_text())
    (source,) = document["sources"]
    stated = {
        table["name"]: [column["name"] for column in table["columns"]] for table in source["tables"]
    }
    query = "SELECT table_name, column_name FROM information_schema.columns WHERE table_name = ?"
    profile = yaml.safe_load((FOLDER / "profiles.yml").read_text())
    (attached,) = profile["assizes"]["outputs"]["dev"]["attach"]
    marts = duckdb.connect()
    store = folder / "made/demo.duckdb"
    marts.execute(f"ATTACH '{store}' AS {attached['alias']} (READ_ONLY)")
    for table, columns in stated.items():
        assert [row[1] for row in marts.execute(query, [table]).fetchall()] == columns
        place = f"{source['database']}.{source['schema']}.{table}"
        assert marts.execute(f"SELECT count(*) FROM {place}").fetchone()[0] >= 0
    assert set(stated) == set(TABLES)
    assert all(column["description"] for table in source["tables"] for column in table["columns"])


def test_the_files_are_what_make_reference_writes():
    spec = importlib.util.spec_from_file_location("writer", ROOT / "docs/write_reference.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert len(writer.FILES) == 3
    for path, text in writer.FILES.items():
        assert path.read_text(encoding="utf-8") == text(), "run `make reference`"


@pytest.mark.full
def test_every_number_of_the_dashboard_is_one_that_the_product_gives(folder: Path):
    given = assizes("export-metrics", "latest", "--store", "made/demo.duckdb", cwd=folder).out
    names = set(re.findall(r"^(assizes_\w+)\{", given, re.MULTILINE))
    labels = set(re.findall(r"[{,](\w+)=\"", given))
    dashboard = json.loads((ROOT / "deployments/grafana.json").read_text())
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for target in targets for name in re.findall(r"assizes_\w+", target["expr"])}
    asked = [variable.get("query") for variable in dashboard["templating"]["list"]]
    used |= set(re.findall(r"assizes_\w+", json.dumps(asked)))
    assert len(used) >= 12
    assert used <= names
    for target in targets:
        named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        matched = set(re.findall(r"[{ ](\w+)=~", target["expr"]))
        assert named | matched <= labels
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))


@pytest.fixture
def postgres() -> Iterator[Path]:
    """The socket folder of a PostgreSQL server of its own; skips where there is none."""
    if not all(map(shutil.which, ("postgres", "initdb", "psql"))):
        pytest.skip("no PostgreSQL server on this machine")
    place = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    place.chmod(0o777)
    user = {"user": "nobody"} if os.geteuid() == 0 else {}  # the server refuses root
    run = {"cwd": place, "capture_output": True, "text": True, **user}
    made = subprocess.run(
        ["initdb", "-D", place / "data", "-U", "assizes", "-A", "trust", "--no-sync"],
        **run,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    options = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", place]
    server = subprocess.Popen(
        ["postgres", "-D", place / "data", *options],
        cwd=place,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **user,
    )
    try:
        for _ in range(600):
            if psql(place, place, "-c", "select 1").returncode == 0:
                break
            server.poll()
            subprocess.run(["sleep", "0.1"], check=True)
        yield place
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(place, ignore_errors=True)


def psql(socket: Path, cwd: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = ["psql", "-h", socket, "-U", "assizes", "-d", "postgres", "-At", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_postgres_holds_the_rows_of_a_store(folder: Path, postgres: Path, tmp_path: Path):
    store = duckdb.connect(folder / "made/demo.duckdb", read_only=True)
    statements = (FOLDER / "to_csv.sql").read_text().replace("TO '", f"TO '{tmp_path}/")
    store.execute(statements)
    for _ in range(2):  # again: filled anew
        filled = psql(postgres, tmp_path, "-f", str(FOLDER / "postgres.sql"))
        assert filled.returncode == 0, filled.stderr
    for table in TABLES:
        (count,) = store.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert psql(postgres, tmp_path, "-c", f"select count(*) from assizes.{table}").stdout == (
            f"{count}\n"
        )
    query = "select round(sum(value)::numeric, 6), count(failure_code), sum(jsonb_array_length(turns)) from {}scores"
    there = psql(postgres, tmp_path, "-c", query.format("assizes.")).stdout.strip().split("|")
    ours = store.execute(
        "select round(sum(value), 6), count(failure_code), sum(len(turns)) from scores"
    ).fetchone()
    assert [float(value) for value in there] == pytest.approx([float(value) for value in ours])
