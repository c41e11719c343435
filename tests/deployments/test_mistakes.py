"""Every mistake of a beginner gets one line: what is wrong, where, and what to do."""

from __future__ import annotations

import json
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from assizes.deployments.cli import app
from assizes.deployments.samples import sample_cases
from assizes.deployments.usage import MEANT, STORE_MEANT
from assizes.judge.formats import native_line
from tests.command import ROOT, Answer, assizes
from tests.deployments.mistakes import FILES, MISTAKES, Mistake

WAY_OUT = re.compile(r"`[^`]+`|--[a-z]|\[[a-z_]+\]|\b[A-Z]+_[A-Z_]+\b|[a-z]+\.[a-z_]+\?")
"""A command, an option, a table of settings, a variable, or the setting that was meant."""

NAMED = re.compile(r"`assizes ((?:store )?[a-z][a-z-]*)")
"""A command that is named in backticks."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with three good transcripts, and a file for each mistake that needs one."""
    project = tmp_path / "project"
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    lines = [native_line(case) for case in sample_cases()[:3]]
    (project / "t.jsonl").write_bytes(b"".join(lines))
    return project


@pytest.fixture
def taken_port() -> Iterator[str]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield str(listening.getsockname()[1])


def make(mistake: Mistake, folder: Path, port: str) -> Answer:
    place = folder.parent if mistake.folder == "/" else folder / mistake.folder
    args = shlex.split(mistake.typed.replace("PORT", port))
    answer = assizes(*args, cwd=place, env={"ASSIZES_HOME": str(folder / "home"), **mistake.env})
    text = answer.err.replace(str(place), "FOLDER").replace(str(folder), "ABOVE")
    return Answer(answer.code, answer.out, text.replace(port, "PORT"))


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.what for mistake in MISTAKES])
def test_a_mistake_gets_one_line_that_names_the_way_out(
    folder: Path, taken_port: str, mistake: Mistake
):
    before = {path for path in folder.rglob("*") if "home" not in path.parts}
    answer = make(mistake, folder, taken_port)
    assert (answer.err, answer.code) == (f"assizes: {mistake.gets}\n", mistake.code)
    assert answer.out == ""
    left = {path.name for path in folder.rglob("*") if "home" not in path.parts} - {
        path.name for path in before
    }
    assert not {name for name in left if name.endswith(".duckdb") or name == "reports"}


def test_there_are_forty_mistakes_and_each_line_names_a_way_out():
    assert len(MISTAKES) >= 40
    lines = [mistake.gets for mistake in MISTAKES]
    assert [line for line in lines if not WAY_OUT.search(line)] == []


def commands(group: Any) -> dict[str, Any]:
    """The commands that the help of a group lists: old names are hidden."""
    return {name: each for name, each in group.commands.items() if not each.hidden}


def test_commands_of_other_tools_stand_for_commands_that_there_are():
    known = commands(get_command(app))
    assert set(MEANT.values()) <= set(known)
    assert not set(MEANT) & set(known)
    of_store = set(commands(known["store"]))
    assert set(STORE_MEANT.values()) <= of_store
    assert not set(STORE_MEANT) & of_store


def test_a_command_that_a_message_names_is_there_under_this_name():
    known = commands(get_command(app))
    names = {*known, *(f"store {name}" for name in commands(known["store"]))}
    texts = [
        text
        for folder in ("judge", "tasks", "flows", "deployments")
        for path in (ROOT / folder).rglob("*.py")
        for text in NAMED.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(texts) > 100
    assert {text for text in texts if text.split()[0] not in known} == set()
    assert {text for text in texts if text.startswith("store ") and text not in names} == set()


def transcripts_of_doctor(folder: Path, uri: str) -> tuple[int, str, str]:
    answer = assizes("doctor", "--json", "--set", f"transcripts.uri={uri}", cwd=folder)
    checks = {check["name"]: check for check in json.loads(answer.out)}
    return answer.code, checks["transcripts"]["state"], checks["transcripts"]["finding"]


REASONS = (
    "broken.jsonl, record 1: schema: messages.0.role: found 'usr', expected system, developer, user, "
    "assistant, tool or function; broken.jsonl, record 2: json: not JSON: expected ident at line 1 "
    "column 2; broken.jsonl, record 3: schema: messages: found int, expected a list"
)


def test_doctor_says_why_no_record_can_be_read(folder: Path):
    code, state, finding = transcripts_of_doctor(folder, "broken.jsonl")
    assert (code, state) == (2, "fault")
    assert finding == (
        f"broken.jsonl: 1 objects, 0.0 MB; none of the first 3 records can be read: {REASONS}"
    )


def test_doctor_notes_records_that_cannot_be_read_beside_good_ones(folder: Path):
    good = '{"messages": [{"role": "user", "content": "hi"}]}\n'
    (folder / "broken.jsonl").write_text(FILES["broken.jsonl"] + good)
    code, state, finding = transcripts_of_doctor(folder, "broken.jsonl")
    assert (code, state) == (0, "note")
    assert finding == (
        f"broken.jsonl: 1 objects, 0.0 MB; 3 of the first 4 records cannot be read: {REASONS}"
    )


def test_doctor_reads_the_first_records(folder: Path):
    assert transcripts_of_doctor(folder, "t.jsonl")[1:] == (
        "ok",
        "t.jsonl: 1 objects, 0.0 MB; the first 3 records can be read",
    )
    assert transcripts_of_doctor(folder, "empty.jsonl")[1:] == (
        "fault",
        "empty.jsonl: 1 objects, 0.0 MB, no record; [transcripts] uri names other files",
    )


def test_no_argument_at_all_shows_the_help(folder: Path):
    answer = assizes(cwd=folder)
    assert answer.code == 2
    assert "Begin:" in answer.err
