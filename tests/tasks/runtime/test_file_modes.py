"""Only its owner reads what a command or a worker writes, unless `ASSIZES_UMASK` opens it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.formats import native_line

pytestmark = pytest.mark.promised  # each test starts a command

_EVALUATION = """
import sys
from pathlib import Path
import assizes
from assizes.judge.config.run import ReportConfig, RunConfig
from assizes.tasks.reports.stored import read_report, write_report_files
from assizes.tasks.spending.ledger_file import open_ledger_file
from assizes.tasks.spending.reply_cache import _write_whole
from assizes.tasks.store import existing_store
from assizes.tasks.runtime.process import prepare_process
prepare_process()
tables = {
    "transcripts": {"uri": "in.jsonl"},
    "store": {"uri": sys.argv[1]},
}
config = RunConfig.model_validate(tables)
assizes.evaluate(config)
with open_ledger_file("kept/ledger.db") as ledger:
    ledger.execute("select 1")
_write_whole("kept/replies/ab/reply", b"{}")
with existing_store(config.store) as store:
    record = store.run(store.runs()["run_id"][0])
    write_report_files(read_report(store, record, None), ReportConfig(uri="reports"))
"""

_WORKER = {"PREFECT__FLOW_RUN_ID": "0"}


def modes_below(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): f"{stat.S_IMODE(path.stat().st_mode):o}"
        for path in folder.rglob("*")
        if path.name not in {"in.jsonl", "search.lock"}
        and not path.name.endswith((".fts", ".lock"))
    }


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "ASSIZES_UMASK"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment | variables,
        umask=0o022,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("store", "variables", "file_mode", "folder_mode"),
    [
        ("lake", _WORKER, "600", "700"),
        pytest.param("rows.duckdb", _WORKER, "600", "700", marks=pytest.mark.full),
        pytest.param(
            *("rows.duckdb", _WORKER | {"ASSIZES_UMASK": "007"}, "660", "770"),
            marks=pytest.mark.full,
        ),
        # A program that uses the library has a mask of its own.
        pytest.param("lake", {}, "644", "755", marks=pytest.mark.full),
    ],
)
def test_modes_of_store_cache_ledger_and_report(
    tmp_path: Path, store: str, variables: dict[str, str], file_mode: str, folder_mode: str
):
    (tmp_path / "in.jsonl").write_bytes(b"".join(map(native_line, sample_cases()[:2])))

    result = run(tmp_path, "-c", _EVALUATION, store, **variables)

    assert result.returncode == 0, result.stderr
    modes = modes_below(tmp_path)
    assert {"kept/ledger.db", "kept/replies/ab/reply", "reports", store} <= modes.keys()
    for name, mode in modes.items():
        assert mode == (folder_mode if (tmp_path / name).is_dir() else file_mode), name


@pytest.mark.parametrize(("umask", "mode"), [("", "600"), ("022", "644"), ("0o27", "640")])
def test_a_command_writes_for_its_owner_unless_the_variable_opens_it(
    tmp_path: Path, umask: str, mode: str
):
    (tmp_path / "in.jsonl").write_bytes(native_line(sample_cases()[0]))

    result = run(tmp_path, "-m", "assizes.deployments.cli", "init", "in.jsonl", ASSIZES_UMASK=umask)

    assert result.returncode == 0, result.stderr
    assert modes_below(tmp_path) == {"assizes.toml": mode}


@pytest.mark.parametrize("umask", ["9", "0777", "700", "rw", "-1"])
def test_a_mask_that_is_none_is_said_in_one_line(tmp_path: Path, umask: str):
    result = run(tmp_path, "-m", "assizes.deployments.cli", "runs", ASSIZES_UMASK=umask)

    assert result.returncode == 2
    assert f"ASSIZES_UMASK='{umask}': wanted octal digits" in result.stderr
    assert result.stderr.count("\n") == 1
