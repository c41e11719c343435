"""The help texts as a newcomer sees them."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer.main

from assizes.deployments.cli import app
from assizes.deployments.options import OTHERS, SECTIONS, SectionedGroup
from tests.command import assizes

GROUP = typer.main.get_command(app)
assert isinstance(GROUP, SectionedGroup)
COMMANDS = GROUP.commands


def test_every_command_stands_under_one_heading():
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(set(COMMANDS))
    assert OTHERS not in GROUP.sections()


def test_the_list_of_commands_cuts_nothing_off(tmp_path: Path):
    answer = assizes("--help", cwd=tmp_path, env={"COLUMNS": "80"})
    assert answer.code == 0
    assert "..." not in answer.out.partition("\nBegin:")[2]
    assert max(len(line) for line in answer.out.splitlines()) <= 80
    assert [line[:-1] for line in answer.out.splitlines() if line[:-1] in SECTIONS] == list(
        SECTIONS
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_does_in_a_line_and_what_its_options_are(name: str):
    command = COMMANDS[name]
    first = (command.help or "").strip().splitlines()[0]
    assert first.endswith(".")
    assert 20 < len(first) <= 100
    silent = [
        parameter.name for parameter in command.params if not getattr(parameter, "help", None)
    ]
    assert [name for name in silent if name not in {"port", "help"}] == []
