"""What a shell asks of the command: its version, and what could come next on a line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.conftest import ROOT
from tests.tasks.store.rows import run_record


def offered(folder: Path, line: str) -> list[str]:
    """What a shell offers for the last word of a line."""
    asked = {"_ASSIZES_COMPLETE": "complete_bash", "COMP_WORDS": line}
    asked["COMP_CWORD"] = str(len(line.split(" ")) - 1)
    # Typer names the variable for the name of the program.
    answer = assizes(cwd=folder, env=asked | {"_CLI_COMPLETE": "complete_bash"})
    assert (answer.code, answer.err) == (0, "")
    return answer.out.split()


def test_the_version_is_that_of_the_package(tmp_path: Path):
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    answer = assizes("--version", cwd=tmp_path)
    assert (answer.code, answer.out, answer.err) == (0, f"assizes {declared}\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_printed(tmp_path: Path, shell: str):
    answer = assizes("--show-completion", shell, cwd=tmp_path)
    assert (answer.code, answer.err) == (0, "")
    assert f"complete_{shell}" in answer.out


def test_a_shell_is_offered_commands_and_the_names_of_runs(tmp_path: Path):
    with open_store(StoreConfig(uri=str(tmp_path / "rows.duckdb")), writing=True) as store:
        for run_id in ("nightly-1", "nightly-2"):
            store.begin(run_record(run_id))
    assert offered(tmp_path, "assizes comp") >= ["compare"]
    shown = offered(tmp_path, "assizes show --store rows.duckdb ")
    assert sorted(shown) == ["latest", "nightly", "nightly-1", "nightly-2"]
    assert offered(tmp_path, "assizes show --store rows.duckdb l") == ["latest"]
    assert offered(tmp_path, "assizes show --store none.duckdb n") == []
