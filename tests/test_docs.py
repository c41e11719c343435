"""Every code block of README and docs is run: what a reader copies works."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import duckdb
import pytest
import typer.main
import yaml

from assizes.deployments.cli import app
from assizes.deployments.options import visible_commands
from assizes.deployments.settings import validate_config
from assizes.judge.config.run import StoreConfig
from assizes.judge.formats import FORMATS
from assizes.judge.rows import LATER_COLUMNS, TABLES
from assizes.judge.rubrics.codebook import parse_codebook
from assizes.judge.rubrics.rubric import parse_rubric
from assizes.tasks.store import open_store
from tests.command import started
from tests.judge.families.custom.custom_judges import parsed_judge

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    page: str
    number: int
    language: str
    text: str


BLOCKS = [
    Block(str(page.relative_to(ROOT)), number, *found.groups())
    for page in PAGES
    for number, found in enumerate(FENCE.finditer(page.read_text(encoding="utf-8")))
]


def of(language: str):
    found = [block for block in BLOCKS if block.language == language]
    ids = [f"{block.page}-{block.number}" for block in found]
    return pytest.mark.parametrize("block", found, ids=ids)


def test_every_block_is_of_a_language_that_is_run():
    assert {block.language for block in BLOCKS} <= {"python", "toml", "sh", "sql", "jsonl", "yaml"}


@of("python")
def test_a_python_block_runs(block: Block, tmp_path: Path):
    own = {"PREFECT_HOME": str(tmp_path)}
    done = started(program=block.text, cwd=tmp_path, env=own).answer()
    assert done.code == 0, done.err


@of("toml")
def test_a_toml_block_is_a_configuration_or_a_rubric(block: Block):
    table = tomllib.loads(block.text)
    if "kind" in table:
        assert parsed_judge(block.text, block.page)
    elif "codes" in table:
        assert parse_codebook(block.text, block.page).codes
    elif "levels" in table:
        assert parse_rubric(block.text, block.page)
    else:
        assert validate_config(table, block.page)


def headings(page: Path) -> set[str]:
    """What stands behind the `#` of links to the headings of a page."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in found}


def test_every_page_and_heading_that_is_linked_is_there():
    links = {
        (page, target)
        for page in PAGES
        for target in re.findall(r"\]\(([^):]+)\)", page.read_text(encoding="utf-8"))
    }
    assert any("#" in target for _, target in links)
    for page, target in links:
        path, _, heading = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), (page.name, target)
        assert not heading or heading in headings(file), (page.name, target)


@of("jsonl")
def test_a_jsonl_block_is_native_transcripts(block: Block):
    for line in block.text.splitlines():
        assert FORMATS["native"].case(line.encode()).transcript.turns
        assert json.loads(line)


OTHER_PROGRAMS = {"curl", "docker", "export", "ollama", "pip", "prefect", "psql", "python", "uv"}
"""Programs of others that a page may call; what they do is theirs to test."""


def check_command_line(line: str) -> None:
    """Fail unless the line calls a program that is known, and ours with what it takes."""
    words = shlex.split(line, comments=True)
    program, *args = words or ["export"]
    if program in OTHER_PROGRAMS:
        return
    assert program == "assizes"
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):  # the group of all commands, and `store` within it
        context = click.Context(command)
        # A group may read what is no command as an argument of one, as `assizes causes RUN`.
        args = command.parse_args(context, args)
        name, command, args = command.resolve_command(context, [*context._protected_args, *args])
        assert name
        assert command is not None, line
    command.make_context(name, args)


@of("sh")
def test_a_command_line_is_one_the_command_takes(block: Block):
    for line in block.text.replace("\\\n", " ").splitlines():
        check_command_line(line)


def commands_in(node: object) -> Iterator[str]:
    """The command lines under the keys `run` of a CI file."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from value.splitlines() if key == "run" else commands_in(value)
    elif isinstance(node, list):
        for part in node:
            yield from commands_in(part)


@of("yaml")
def test_the_commands_of_a_ci_file_are_ones_the_command_takes(block: Block):
    lines = list(commands_in(yaml.safe_load(block.text)))
    assert lines
    for line in lines:
        check_command_line(line.partition(" >")[0])


def test_no_line_of_a_new_page_is_over_200_characters():
    new = [page for page in PAGES if page.parent.name in ("how-to", "reference")]
    new += [ROOT / "docs" / f"{name}.md" for name in ("index", "tutorial", "glossary")]
    new.append(ROOT / "docs" / "troubleshooting.md")
    assert len(new) > 20
    long = {
        (page.name, number)
        for page in new
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 200
    }
    assert long == set()


@pytest.fixture(scope="module")
def rows_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DuckDB store with the public tables."""
    file = tmp_path_factory.mktemp("rows") / "assizes.duckdb"
    with open_store(StoreConfig(uri=f"duckdb:///{file}"), writing=True):
        return file


@of("sql")
def test_a_query_runs_on_the_public_tables(block: Block, rows_file: Path):
    with duckdb.connect(rows_file, read_only=True) as connection:
        connection.execute(block.text).fetchall()


@pytest.mark.row("004-96")
def test_the_readme_says_who_receives_transcripts_and_how_to_redact_them():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    said = text.split("What leaves the machine:")[1].split("\n\n")[0]
    assert "goes to that provider" in said
    assert "redact" in said


def test_every_command_is_documented():
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    commands = visible_commands(typer.main.get_command(app))
    assert {"run", "backfill", "sql", "store clean"} <= set(commands)
    assert {
        name for name in commands if f"`{name}`" not in pages and f"assizes {name}" not in pages
    } == set()


@pytest.mark.parametrize("table", ["scores", "asks", "cases", "runs"])
def test_the_columns_of_a_table_are_told_in_their_order(table: str):
    page = (ROOT / "docs" / "rows.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {table}\n")[1]
    rows = section[section.index("| column |") :].split("\n\n")[0].splitlines()[2:]
    told = [name.strip(" *") for row in rows for name in row.split("|")[1].split(",")]
    assert told == list(TABLES[table])


def test_columns_that_older_rows_lack_are_told():
    section = (
        (ROOT / "docs" / "rows.md").read_text(encoding="utf-8").split("\n## Older stores\n")[1]
    )
    told = re.findall(r"`(\w+\.\w+)`", section.strip().split("\n\n")[0])
    later = [f"{table}.{column}" for table, names in LATER_COLUMNS.items() for column in names]
    assert sorted(told) == sorted(later)
