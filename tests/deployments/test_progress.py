"""The progress of long commands, as a terminal shows it."""

from __future__ import annotations

import os
import pty
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.formats import native_line
from tests.command import Answer, started
from tests.deployments.test_backfill_command import CONFIG, DAYS
from tests.flows.nights import cases_of, lay

_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_a_terminal(*args: str, cwd: Path, env: Mapping[str, str]) -> Answer:
    """Run `assizes ARGS` with a terminal as stderr; `err` holds the text that the terminal received."""
    ours, theirs = pty.openpty()
    process = started(*args, cwd=cwd, env={"TERM": "xterm", **env}, err=theirs)
    os.close(theirs)
    shown = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    done = process.answer(60)
    return Answer(done.code, done.out, _CONTROLS.sub("", shown.decode()))


def _read(terminal: int) -> bytes:
    """Read the next bytes; empty when no process has the terminal open any more."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""


def test_a_plan_counts_what_it_reads_and_what_it_foresees(tmp_path: Path):
    lines = [native_line(case) for case in sample_cases()[:10]]
    (tmp_path / "t.jsonl").write_bytes(b"".join(lines))
    (tmp_path / "assizes.toml").write_text('name = "p"\n[transcripts]\nuri = "t.jsonl"\n')
    answer = on_a_terminal("plan", "--json", cwd=tmp_path, env={})
    assert answer.code == 0, answer
    assert answer.out.startswith("{")
    assert re.search(r"foreseeing .* 10/10 ", answer.err), answer.err


@pytest.mark.full
def test_a_backfill_shows_the_cases_of_the_day_and_the_days(tmp_path: Path, prefect_server: str):
    (tmp_path / "assizes.toml").write_text(CONFIG)
    for day in DAYS[:2]:
        lay(tmp_path, day, cases_of(day))
    words = ("backfill", "--from", str(DAYS[0]), "--to", str(DAYS[1]), "--in-flight", "1")
    answer = on_a_terminal(*words, cwd=tmp_path, env={"PREFECT_API_URL": prefect_server})
    assert answer.code == 0, answer
    assert re.search(r"judging .* 2/2 ", answer.err), answer.err
    assert re.search(r"days .* [12]/2 ", answer.err), answer.err
    assert "Passed" in answer.out
