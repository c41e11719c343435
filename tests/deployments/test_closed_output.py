"""Output that nobody reads, that cannot be written, or that lacks a character."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.outward import PYTHONPATH
from tests.tasks.reports.sample_families import families_run
from tests.tasks.stored_runs import put

STORE = ("--store", "s.duckdb")
COMMANDS = (
    ("runs", *STORE),
    ("sql", "s.duckdb", "select 1", "--csv"),
    ("judges", "--json"),
    ("help", "words"),
    ("--help",),
)
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("output")
    with open_store(StoreConfig(uri=f"duckdb:///{place}/s.duckdb"), writing=True) as store:
        put(store, families_run())
    return place


def written_to(
    output: int, words: tuple[str, ...], folder: Path, **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """The command as a process that writes its output to a descriptor."""
    return subprocess.run(
        [sys.executable, "-m", "assizes.deployments.cli", *words],
        cwd=folder,
        env={"PYTHONPATH": PYTHONPATH, **variables},
        stdout=output,
        stderr=subprocess.PIPE,
        check=False,
    )


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("variables", [{}, UNBUFFERED], ids=["buffered", "unbuffered"])
def test_a_reader_that_left_ends_the_command_as_sigpipe_ends_others(
    stored: Path, words: tuple[str, ...], variables: dict[str, str]
):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = written_to(writer, words, stored, **variables)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("variables", [{}, UNBUFFERED], ids=["buffered", "unbuffered"])
def test_output_that_cannot_be_written_is_one_line_with_the_reason(
    stored: Path, words: tuple[str, ...], variables: dict[str, str]
):
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = written_to(full, words, stored, **variables)
    finally:
        os.close(full)
    reason = b"assizes: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, reason)


@pytest.mark.parametrize("words", [(), ("--json",), ("--csv",)], ids=str)
def test_a_character_that_the_output_lacks_is_an_escape(stored: Path, words: tuple[str, ...]):
    query = "select 'é → 😀' as text"
    done = written_to(
        subprocess.PIPE, ("sql", "s.duckdb", query, *words), stored, PYTHONIOENCODING="ascii"
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u00e9 \u2192 \ud83d\ude00" in done.stdout
    if words == ("--json",):
        assert json.loads(done.stdout) == [{"text": "é → 😀"}]


@pytest.mark.parametrize("words", [(), ("--log-format", "json")], ids=["text", "json"])
@pytest.mark.parametrize("variables", [{}, UNBUFFERED], ids=["buffered", "unbuffered"])
def test_errors_that_nobody_reads_leave_the_exit_code(
    stored: Path, words: tuple[str, ...], variables: dict[str, str]
):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "assizes.deployments.cli", *words, "show", "x", *STORE],
            cwd=stored,
            env={"PYTHONPATH": PYTHONPATH, **variables},
            stderr=writer,
            check=False,
        )
    finally:
        os.close(writer)
    assert done.returncode == 2
