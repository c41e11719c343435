"""The reference pages name everything there is, each with a sentence, and are as `make reference` writes them."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

import assizes
from assizes.deployments.api import create_app
from assizes.deployments.cli import app
from assizes.deployments.command_output import READER_LEFT
from assizes.deployments.web.guard import Access
from assizes.flows.outcome import EXIT_CODES
from assizes.judge.catalog import known_judges
from assizes.judge.config.run import RunConfig
from assizes.judge.engine import faults
from assizes.judge.errors import AssizesError
from assizes.judge.rows import TABLES

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    page.stem: page.read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs" / "reference").glob("*.md"))
}
LAYERS = ("judge", "tasks", "flows", "deployments")


def headings(page: str) -> set[str]:
    return set(re.findall(r"^#+ (.+)$", PAGES[page], re.MULTILINE))


@pytest.fixture(scope="module")
def writer():
    """The module behind `make reference`."""
    spec = importlib.util.spec_from_file_location(
        "write_reference", ROOT / "docs" / "write_reference.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_what_make_reference_writes(writer):
    stale = [name for name in writer.PAGES if writer.page_text(name) != PAGES.get(name)]
    assert stale == [], "run `make reference`"
    assert set(PAGES) == set(writer.PAGES)


def settings(schema: dict, path: str, definitions: dict) -> Iterator[str]:
    """The dotted names of all settings in a JSON schema; of a table in a list or by name as well."""
    for name, part in schema.get("properties", {}).items():
        here = f"{path}{name}"
        inner = list(references(part))
        if inner and "$ref" in part:  # a table
            yield from settings(definitions[inner[0]], f"{here}.", definitions)
            continue
        yield here
        key = ".NAME" if "additionalProperties" in part else ""
        for reference in inner:
            yield from settings(definitions[reference], f"{here}{key}.", definitions)


def references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def test_every_setting_is_on_the_page():
    schema = RunConfig.model_json_schema()
    names = set(settings(schema, "", schema["$defs"]))
    assert {"name", "judge.model", "privacy.rules.pattern", "judge.metrics.weight"} <= names
    assert len(names) > 150
    assert names - headings("settings") == set()


def test_every_option_of_a_judge_is_on_the_page():
    names = {
        f"judge.options.{judge if option not in ('model', 'temperature') else 'NAME'}.{option}"
        for judge, entry in known_judges(()).items()
        for option in entry.options.model_fields
    }
    assert "judge.options.sql.tools" in names
    assert names - headings("settings") == set()


def test_every_setting_has_a_type_a_default_and_a_sentence():
    sections = re.split(r"^### ", PAGES["settings"].partition("## Environment")[0], flags=re.M)[1:]
    for section in sections:
        name, _, body = section.partition("\n")
        kind, sentence = re.split(r"\n\s*\n", body.partition("\n## ")[0].strip())[:2]
        assert re.fullmatch(r"Type: .+\. Default: .+\.", " ".join(kind.split())), name
        assert re.fullmatch(r"[A-Z`\[].+[.]", " ".join(sentence.split())), name


def visible_commands(group, path: str) -> Iterator[tuple[str, object]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from visible_commands(command, f"{path} {name}")
        elif not command.hidden:
            yield f"{path} {name}", command


COMMANDS = dict(visible_commands(typer.main.get_command(app), "assizes"))


def test_every_command_is_on_the_page_and_no_hidden_one():
    assert "assizes run" in COMMANDS
    assert {name for name in headings("commands") if name.startswith("assizes ")} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_in_its_section(name: str):
    section = PAGES["commands"].split(f"\n### {name}\n")[1].split("\n##")[0]
    for part in COMMANDS[name].params:
        if part.name == "help" or getattr(part, "hidden", False):
            continue
        options = [option for option in part.opts if option.startswith("--")]
        wanted = options or [part.metavar or part.name]
        assert all(text in section for text in wanted), part.name


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_in_the_section_of_its_table(table: str):
    section = PAGES["rows"].split(f"\n## {table}\n")[1].split("\n## ")[0]
    assert re.findall(r"^- `(\w+)` \(.+?\): [A-Z`]", section, re.MULTILINE) == list(TABLES[table])


def test_every_operation_is_on_the_page():
    config = RunConfig.model_validate({"transcripts": {"uri": "t"}})
    document = create_app(config, Access(frozenset())).openapi()
    operations = {
        f"{method.upper()} {path}" for path, part in document["paths"].items() for method in part
    }
    assert "GET /runs" in operations
    assert operations - headings("http") == set()
    assert set(document["components"]["schemas"]) - headings("http") == set()


def test_every_public_name_is_on_the_page():
    assert {f"assizes.{name}" for name in assizes.__all__} - headings("python") == set()


def errors(kind: type[AssizesError]) -> Iterator[type[AssizesError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from errors(inner)


def test_every_exit_code_is_on_the_page():
    codes = {error.exit_code for error in errors(AssizesError)} | set(EXIT_CODES.values())
    codes.add(READER_LEFT)
    assert codes == {1, 0, 2, 3, 4, 5, 70, 130, 141}
    assert {str(code) for code in codes} == headings("exit-codes") - {"Exit codes"}


RAISED = {"DataError": "rejects", "ModelError": "asks", "NoReply": "asks", "NotAsked": "asks"}
SHOWN_ONLY = {"unknown"}
"""Codes that a page shows in place of a conversation; no row holds them."""


def codes_in_the_code() -> Iterator[tuple[str, str]]:
    """Each code that a call names as a literal, with the section of the page it belongs to."""
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call):
                    continue
                name = getattr(node.func, "id", "")
                place = 2 if name == "RuleFinding" else 0
                if name in RAISED or name == "RuleFinding":
                    for argument in node.args[place : place + 1]:
                        if isinstance(argument, ast.Constant) and argument.value not in SHOWN_ONLY:
                            yield RAISED.get(name, "scores"), argument.value


def test_every_failure_code_is_on_the_page(writer):
    known = writer.TEXTS["failure_codes"]
    used = set(codes_in_the_code())
    assert {("rejects", "json"), ("asks", "budget"), ("scores", "verbose")} <= used
    used |= {("asks", code) for code in (*faults.STOPS, *faults.OUTAGES, *faults.UNCHARGED)}
    assert {(table, code) for table, code in used if code not in known[table]} == set()
    for table in known.values():
        for code in table:
            assert f"- `{code}`: " in PAGES["failure-codes"]


def test_no_page_speaks_of_the_history_of_the_project():
    for name, text in PAGES.items():
        assert re.findall(r"seed 00\d|the documents'", text) == [], name
