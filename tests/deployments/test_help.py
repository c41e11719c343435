"""The help texts as a newcomer sees them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from assizes.deployments.cli import app
from assizes.deployments.options import OTHERS, SECTIONS, SectionedGroup, visible_commands
from assizes.deployments.words import WORDS, words_page
from assizes.judge.rows import TABLES
from tests.command import ROOT, assizes

GROUP = typer.main.get_command(app)
assert isinstance(GROUP, SectionedGroup)
COMMANDS = visible_commands(GROUP)

OLD_NAMES = {
    "requeue": "retry-rejected",
    "compact": "store compact",
    "gc": "store clean",
    "forget": "store forget",
    "rebuild": "store rebuild",
    "serve-flows": "worker",
    "metrics-export": "export-metrics",
}
OLD_OPTIONS = ("--run-id", "--fork", "--only-errors")


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


@pytest.mark.parametrize(("old", "new"), OLD_NAMES.items())
def test_an_old_name_is_the_same_command_and_stands_in_no_help(old: str, new: str):
    assert old not in COMMANDS
    command, renamed = GROUP.commands[old], COMMANDS[new]
    assert command.hidden
    assert command.callback.__wrapped__ is renamed.callback.__wrapped__
    assert [(each.name, each.opts) for each in command.params] == [
        (each.name, each.opts) for each in renamed.params
    ]


def test_help_shows_no_old_name_and_run_takes_its_old_options(tmp_path: Path):
    pages = [assizes("--help", cwd=tmp_path), assizes("run", "--help", cwd=tmp_path)]
    words = {word for page in pages for word in page.out.replace("`", " ").split()}
    assert words.isdisjoint({*OLD_NAMES, *OLD_OPTIONS} - {"compact", "forget", "rebuild"})
    options = {option for each in COMMANDS["run"].params for option in each.opts}
    assert options.issuperset(OLD_OPTIONS)


def test_help_on_a_command_is_the_help_of_the_command(tmp_path: Path):
    for words in (("run",), ("store", "clean"), ("store",)):
        asked = assizes("help", *words, cwd=tmp_path)
        shown = assizes(*words, "--help", cwd=tmp_path)
        assert (asked.code, asked.out.rstrip()) == (0, shown.out.rstrip())
    assert "retry-rejected" in assizes("help", cwd=tmp_path).out
    wrong = assizes("help", "requeued", cwd=tmp_path)
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err == (
        "assizes: help: no command 'requeued'; give `words` or a command that `assizes --help` "
        "lists\n"
    )


def test_the_words_are_one_page_in_the_terminal_and_in_the_docs(tmp_path: Path):
    page = (ROOT / "docs" / "words.md").read_text(encoding="utf-8")
    assert page == words_page(), "assizes help words --markdown > docs/words.md"
    shown = assizes("help", "words", cwd=tmp_path).out
    assert max(map(len, shown.splitlines())) <= 80
    assert "`" not in shown
    names = [word.name for words in WORDS.values() for word in words]
    assert [
        line.strip() for line in shown.splitlines() if line[:3].strip() and line[:2] == "  "
    ] == (names)
    assert assizes("help", "words", "--markdown", cwd=tmp_path).out == page


def test_the_words_name_commands_and_tables_that_are_there():
    page = words_page()
    named = re.findall(r"`assizes ([a-z -]+)", page)
    assert named
    assert all(any(f"{name} ".startswith(f"{command} ") for command in COMMANDS) for name in named)
    assert set(re.findall(r"table `(\w+)`", page)) <= {*TABLES, "comparisons", "rejects", "runs"}
