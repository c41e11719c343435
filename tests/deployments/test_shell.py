"""What a shell asks of the command: its version, and what could come next on a line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.command import ROOT, assizes
from tests.tasks.store.rows import run_record


def script(*words: str, cwd: Path, **environment: str) -> str:
    """What the command prints, which a shell knows as `assizes` however it was started."""
    done = assizes(*words, cwd=cwd, env=environment)
    assert (done.code, done.err) == (0, "")
    return done.out


def offered(folder: Path, line: str) -> list[str]:
    """What a shell offers for the last word of a line."""
    last = str(len(line.split(" ")) - 1)
    asked = {"_ASSIZES_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": last}
    return script(cwd=folder, **asked).split()


def test_the_version_is_that_of_the_package(tmp_path: Path):
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert script("--version", cwd=tmp_path) == f"assizes {declared}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_printed(tmp_path: Path, shell: str):
    printed = script(cwd=tmp_path, _ASSIZES_COMPLETE=f"source_{shell}")
    assert f"_ASSIZES_COMPLETE=complete_{shell}" in printed
    options = script("--help", cwd=tmp_path)
    assert "--install-completion" in options
    assert "--show-completion" in options


@pytest.mark.full
def test_a_shell_is_offered_commands_and_the_names_of_runs(tmp_path: Path):
    with open_store(StoreConfig(uri=str(tmp_path / "rows.duckdb")), writing=True) as store:
        for run_id in ("nightly-1", "nightly-2"):
            store.begin(run_record(run_id))
    assert "compare" in offered(tmp_path, "assizes comp")
    shown = offered(tmp_path, "assizes show --store rows.duckdb ")
    assert sorted(shown) == ["latest", "nightly", "nightly-1", "nightly-2"]
    assert offered(tmp_path, "assizes show --store rows.duckdb l") == ["latest"]
    assert offered(tmp_path, "assizes show --store none.duckdb n") == []
