"""`make reference`: the pages of docs/reference, written from the program itself.

Settings come from the configuration models, commands from the command line, columns from the public
tables, operations from the OpenAPI document, names from `import assizes`. Sentences that no object
carries stand in reference_texts.toml; a name without a sentence ends the program.

Usage: python docs/write_reference.py
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import polars as pl
import typer.main
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import assizes
from assizes.deployments.api import create_app
from assizes.deployments.cli import app
from assizes.deployments.commands.show import EXIT_CODES as COMPARE_CODES
from assizes.deployments.documents.table import DOCUMENTS, document_schema
from assizes.deployments.web.guard import Access
from assizes.flows.outcome import EXIT_CODES
from assizes.judge import errors
from assizes.judge.catalog import known_judges
from assizes.judge.config.run import RunConfig
from assizes.judge.families.entry import JudgeOptions
from assizes.judge.rows import KEYS, TABLES

DOCS: Final = Path(__file__).resolve().parent
FOLDER: Final = DOCS / "reference"
TEXTS: Final[dict[str, Any]] = tomllib.loads(
    (DOCS / "reference_texts.toml").read_text(encoding="utf-8")
)
WIDTH: Final = 160
"""Characters of a line at most."""

HEAD: Final = (
    "<!-- Written by `make reference`. Edit the program or docs/reference_texts.toml. -->\n"
)

Page = Iterator[str]
"""The blocks of a page: a blank line stands between two of them."""


_WHOLE: Final = re.compile(r"`[^`]+`|\[[^\]]+\]\([^)]+\)")
"""Code and links, which stay on one line."""

_JOINED: Final = "\N{NO-BREAK SPACE}"


def wrapped(text: str, indent: str = "") -> str:
    """The text in lines of `WIDTH`, the later ones behind `indent`; code and links stay whole."""
    plain = _WHOLE.sub(lambda part: part[0].replace(" ", _JOINED), " ".join(text.split()))
    lines = textwrap.wrap(
        plain, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines).replace(_JOINED, " ")


def bullet(text: str) -> str:
    """The text as an item of a list."""
    return wrapped(f"- {text}", "  ")


def sentence_of(thing: object) -> str:
    """The first paragraph of a docstring, with code between single backticks."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


# Settings


def settings_page() -> Page:
    """Every setting of a configuration file: type, default, sentence."""
    yield "# Settings"
    yield wrapped(
        "A configuration is one TOML file, `assizes.toml` by default. `assizes init` writes one. Every setting can also be "
        "given on the command line (`--set judge.model=openai/gpt-4.1`) and in the environment "
        "(`ASSIZES_JUDGE__MODEL=openai/gpt-4.1`). The command line counts before the environment, and the environment "
        "before the file. A setting that does not exist is refused."
    )
    yield wrapped(
        '"Not set" means that the line is left out. TOML has no word for it, so a setting is unset by leaving it out.'
    )
    for name, field in RunConfig.model_fields.items():
        if isinstance(model := field.annotation, type) and issubclass(model, BaseModel):
            yield f"## [{name}]"
            yield wrapped(table_sentence(model))
            yield from table_blocks(model, name)
        else:
            yield "## Outside of the tables"
            yield from field_blocks(field, name)
    yield from options_blocks()
    yield from environment_blocks()


def table_sentence(model: type[BaseModel]) -> str:
    """What a table is for, from the docstring `[table]: what it is for`."""
    text = re.sub(r"^(\[+[\w.]+\]+(, | and )?)+:? ?", "", sentence_of(model))
    return text[:1].upper() + text[1:]


def table_blocks(model: type[BaseModel], path: str) -> Page:
    """The settings of one table, tables within it after the setting that holds them."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from table_blocks(inner, f"{path}.{name}")
        else:
            yield from field_blocks(field, f"{path}.{name}")


def field_blocks(field: FieldInfo, path: str) -> Page:
    """One setting, and the settings of the tables that are its values."""
    kind, inner = type_words(field.annotation)
    yield f"### {path}"
    yield wrapped(f"Type: {kind}{bounds(field)}. Default: {default_words(field)}.")
    yield wrapped(described(field, path))
    if inner is not None:
        key = ".NAME" if get_origin(field.annotation) is dict else ""
        yield from table_blocks(inner, f"{path}{key}")


def described(field: FieldInfo, path: str) -> str:
    """The sentence of a setting.

    Raises:
        SystemExit: for a setting without one.
    """
    if not field.description:
        raise SystemExit(f"{path}: has no description; give its Field one")
    return sentence(field.description)


def sentence(text: str) -> str:
    """The text with a capital letter in front and a full stop behind."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def type_words(annotation: Any) -> tuple[str, type[BaseModel] | None]:
    """A type in words, and the model of the tables that it holds."""
    args = [arg for arg in get_args(annotation) if arg is not Ellipsis]
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        kinds = [type_words(arg) for arg in args if arg is not type(None)]
        return " or ".join(words for words, _ in kinds), kinds[0][1]
    if origin is Literal:
        return "one of " + ", ".join(f"`{arg}`" for arg in args), None
    if hasattr(annotation, "__metadata__"):  # Annotated
        return type_words(args[0])
    if origin in (tuple, dict):
        words, inner = type_words(args[-1])
        return f"{'list' if origin is tuple else 'table'} of {plural(words)}", inner
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table", annotation
    plain = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}
    return plain.get(annotation, "any value"), None


def plural(words: str) -> str:
    """The words as the elements of a list are named."""
    if words in ("text", "whole number", "number", "table"):
        return f"{words}s"
    if words.startswith("table of"):
        return "tables"
    return {"any value": "values"}.get(words, words)


_BOUNDS: Final[Mapping[str, str]] = {
    "ge": "at least {}",
    "gt": "over {}",
    "le": "at most {}",
    "lt": "under {}",
    "min_length": "at least {} of them",
    "pattern": "of the form `{}`",
}


def bounds(field: FieldInfo) -> str:
    """The bounds of a value in words, with a comma before each."""
    parts = []
    for rule in field.metadata:
        for name, words in _BOUNDS.items():
            value = getattr(rule, name, None)
            if value is not None and not (name == "min_length" and field.annotation is str):
                parts.append(f", {words.format(value)}")
    return "".join(parts)


def default_words(field: FieldInfo) -> str:
    """The default of a setting as a TOML value."""
    if field.is_required():
        return "none, it must be given"
    value = field.get_default(call_default_factory=True)
    return "not set" if value is None else f"`{toml_words(value)}`"


def toml_words(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml_words, value))}]"
    return str(value)


def options_blocks() -> Page:
    """The options of the built-in judges."""
    yield "## [judge.options.NAME]"
    yield wrapped("Options of one judge. NAME is the name of a judge from `judge.judges`.")
    for name, field in JudgeOptions.model_fields.items():
        yield from field_blocks(field, f"judge.options.NAME.{name}")
    for judge, entry in known_judges(()).items():
        for name, field in entry.options.model_fields.items():
            if name not in JudgeOptions.model_fields:
                yield from field_blocks(field, f"judge.options.{judge}.{name}")


def environment_blocks() -> Page:
    """The variables of the environment."""
    yield "## Environment"
    texts = TEXTS["environment"].items()
    yield "\n".join(bullet(f"`{name}`: {text}") for name, text in texts)


# Commands


def commands_page() -> Page:
    """Every command with its arguments and options."""
    root = typer.main.get_command(app)
    yield "# Commands"
    yield wrapped(
        "Results go to stdout, progress and messages to stderr. `--json` prints one JSON document on stdout. What the exit "
        "codes mean is on the page [exit codes](exit-codes.md)."
    )
    yield from option_bullets(root, "assizes")
    for title, names in root.sections().items():  # type: ignore[attr-defined]  # of SectionedGroup
        yield f"## {title}"
        for name in names:
            yield from command_blocks(command_of(root, name), f"assizes {name}")


def command_of(root: Any, name: str) -> Any:
    """The command of a name such as `run` or `store clean`."""
    for part in name.split():
        root = root.commands[part]
    return root


def command_blocks(command: Any, path: str) -> Page:
    """One command: what it does, how it is called, its arguments and options."""
    yield f"### {path}"
    yield from paragraphs(command.help or "")
    context = command.make_context(path, [], resilient_parsing=True)
    yield f"    {' '.join(command.get_usage(context).removeprefix('Usage: ').split())}"
    yield from option_bullets(command, path)


def paragraphs(text: str) -> Page:
    """The paragraphs of a help text, each wrapped."""
    for part in inspect.cleandoc(text).split("\n\n"):
        yield part.rstrip() if part.startswith("    ") else wrapped(part)


def option_bullets(command: Any, path: str) -> Page:
    """The arguments and options of a command as one list."""
    context = command.make_context(path, [], resilient_parsing=True)
    parts = [part for part in command.get_params(context) if part.name != "help"]
    records = [part.get_help_record(context) for part in parts]
    yield "\n".join(bullet(f"`{record[0]}`: {record[1]}") for record in records if record)


# Rows


def rows_page() -> Page:
    """Every table and column of a store."""
    yield "# Tables and columns"
    yield wrapped(
        "The same tables are in a DuckDB file and in a folder of Parquet files. `assizes sql RUN_OR_STORE QUERY` asks them in "
        "SQL. [Rows](../rows.md) explains them, with ready queries. The columns of a key are marked."
    )
    for table, columns in TABLES.items():
        yield f"## {table}"
        yield wrapped(TEXTS["tables"][table])
        sentences = TEXTS["columns"][table]
        check_names(f"columns.{table}", sentences, columns)
        yield "\n".join(
            bullet(f"`{name}` ({type_name(dtype)}{key_mark(table, name)}): {sentences[name]}")
            for name, dtype in columns.items()
        )


def check_names(where: str, there: Any, wanted: Any) -> None:
    """See to it that the texts name what the program has, and nothing else.

    Raises:
        SystemExit: naming what is missing and what is too many.
    """
    if set(there) != set(wanted):
        wrong = sorted(set(there) ^ set(wanted))
        raise SystemExit(f"docs/reference_texts.toml [{where}]: differs from the program: {wrong}")


def key_mark(table: str, name: str) -> str:
    """The mark of a column of the table's key."""
    return ", key" if name in KEYS[table] else ""


def type_name(dtype: Any) -> str:
    """The type of a column as SQL users name it."""
    if isinstance(dtype, pl.List):
        return f"list of {type_name(dtype.inner)}"
    if isinstance(dtype, pl.Datetime):
        return "time"
    return {
        pl.String: "text",
        pl.Boolean: "boolean",
        pl.Date: "date",
        pl.Float64: "double",
        pl.Int32: "integer",
        pl.Int64: "bigint",
    }[dtype]


# HTTP


def http_page() -> Page:
    """Every operation of the HTTP API, and the shapes of its bodies."""
    config = RunConfig.model_validate({"transcripts": {"uri": "transcripts"}})
    document = create_app(config, Access(frozenset())).openapi()
    yield "# HTTP API"
    yield wrapped(
        "`assizes serve` answers on `http://127.0.0.1:8320`. The same description is at `/openapi.json`. "
        "[Pages and HTTP API](../http.md) explains who may ask and how runs are begun. Errors are problem documents "
        "(RFC 9457), the schema `Problem`."
    )
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"## {method.upper()} {path}"
            yield wrapped(operation.get("description") or operation["summary"])
            yield from operation_bullets(operation)
    yield "## Schemas"
    for name, schema in document["components"]["schemas"].items():
        yield f"### {name}"
        if text := schema.get("description"):
            yield wrapped(text.partition("\n\n")[0])
        if fields := schema.get("properties"):
            yield "\n".join(
                bullet(
                    f"`{key}`: {schema_words(part)}. {part.get('description', '')}".rstrip(". ")
                    + "."
                )
                for key, part in fields.items()
            )


def operation_bullets(operation: Mapping[str, Any]) -> Page:
    """The parameters, the body and the answers of one operation."""
    lines = []
    for part in operation.get("parameters", ()):
        text = part.get("description") or part["schema"].get("description", "")
        must = ", required" if part.get("required") else ""
        words = schema_words(part["schema"])
        lines.append(f"`{part['name']}` ({part['in']}, {words}{must}){': ' if text else ''}{text}.")
    if body := operation.get("requestBody"):
        lines.append(f"Body: {content_words(body)}.")
    lines += [
        f"Answer {status}: {content_words(answer) or answer['description']}."
        for status, answer in operation["responses"].items()
    ]
    yield "\n".join(map(bullet, lines))


def content_words(part: Mapping[str, Any]) -> str:
    """The schema of a body or an answer in words."""
    kinds = [
        schema_words(content.get("schema", {})) for content in part.get("content", {}).values()
    ]
    return " or ".join(dict.fromkeys(kinds))


def schema_words(schema: Mapping[str, Any]) -> str:
    """A JSON schema in words."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if parts := schema.get(key):
            return " or ".join(dict.fromkeys(map(schema_words, parts)))
    if values := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return "one of " + ", ".join(f"`{value}`" for value in values)
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {schema_words(schema.get('items', {}))}"
    return {"string": "text", "integer": "whole number", "object": "object"}.get(kind, kind)


# Python


def python_page() -> Page:
    """Every name that `import assizes` offers."""
    yield "# Python"
    yield wrapped(
        "These are the names of `import assizes`. They stay as they are from release to release; a change is announced in the "
        "changelog. Everything else may change. An author of judges finds more in `assizes.judge.protocol`."
    )
    for name in sorted(assizes.__all__, key=str.lower):
        yield from name_blocks(getattr(assizes, name), f"assizes.{name}")


def name_blocks(thing: Any, path: str) -> Page:
    """A public name; of a module its functions, of a class its fields and methods."""
    yield f"## {path}"
    if isinstance(thing, ModuleType):
        yield from paragraphs(inspect.getdoc(thing) or "")
        for name, part in sorted(vars(thing).items()):
            is_own = getattr(part, "__module__", "") == thing.__name__
            if (
                is_own
                and not name.startswith("_")
                and (inspect.isroutine(part) or inspect.isclass(part))
            ):
                yield from member_blocks(part, f"{path}.{name}")
        return
    yield from signature_blocks(thing)
    if inspect.isclass(thing):
        yield from class_bullets(thing)


def member_blocks(thing: Any, path: str) -> Page:
    """A function or class of a public module."""
    yield f"### {path}"
    yield from signature_blocks(thing)
    if inspect.isclass(thing):
        yield from class_bullets(thing)


def signature_blocks(thing: Any) -> Page:
    """A signature as code, and the docstring."""
    is_called = not inspect.isclass(thing) or not (
        issubclass(thing, BaseModel) or getattr(thing, "_is_protocol", False)
    )
    if is_called:
        yield signature_text(thing)
    yield from paragraphs(inspect.getdoc(thing) or "")


def signature_text(thing: Any) -> str:
    """A signature, with a line for each parameter where it is long."""
    text = str(inspect.signature(thing)).replace("'", "")
    name = thing.__name__
    if len(name + text) <= 100:
        return f"    {name}{text}"
    parts = [str(part).replace("'", "") for part in inspect.signature(thing).parameters.values()]
    end = text.rpartition(")")[2]
    return "\n".join([f"    {name}(", *(f"        {part}," for part in parts), f"    ){end}"])


def class_bullets(thing: type) -> Page:
    """The fields and the public methods of a class."""
    lines = []
    for name, field in getattr(thing, "model_fields", {}).items():
        words = type_words(field.annotation)[0]
        text = f": {field.description}" if field.description else ""
        lines.append(f"`{name}` ({words}){text}")
    for name, part in vars(thing).items():
        doc = getattr(part, "__func__", part)
        if not name.startswith("_") and (inspect.isfunction(doc) or isinstance(part, property)):
            lines.append(f"`{name}`: {sentence_of(doc)}")
    if lines:
        yield "\n".join(map(bullet, lines))


# Codes


def exit_codes_page() -> Page:
    """Every exit code, with what ends by it."""
    texts = TEXTS["exit_codes"]
    check_names("exit_codes", texts, map(str, exit_codes()))
    yield "# Exit codes"
    yield wrapped(
        "The exit code is what a script or a CI job reads. No command ends with another one."
    )
    for code in sorted(texts, key=int):
        yield f"## {code}"
        yield wrapped(texts[code])
        if endings := sorted(exit_codes()[int(code)]):
            yield wrapped(
                f"States and errors with this code: {', '.join(f'`{name}`' for name in endings)}."
            )


def exit_codes() -> dict[int, set[str]]:
    """The states of a run, endings of a comparison and errors, by the code that they end with."""
    codes: dict[int, set[str]] = {code: set() for code in (0, 2, 70, 130, 141)}
    for table in (EXIT_CODES, COMPARE_CODES):
        for ending, code in table.items():
            codes.setdefault(code, set()).add(str(ending))
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, errors.AssizesError):
            codes.setdefault(kind.exit_code, set()).add(name)
    return codes


def failure_codes_page() -> Page:
    """Every code by which a fault of an agent, a model or a record is named."""
    yield "# Failure codes"
    yield wrapped(
        "A fault has a short code, so that it can be counted. There are three kinds, in three columns of the store."
    )
    for heading, (table, text) in CODE_KINDS.items():
        yield f"## {heading}"
        yield wrapped(text)
        yield "\n".join(
            bullet(f"`{code}`: {words}") for code, words in TEXTS["failure_codes"][table].items()
        )


CODE_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "Faults of an agent": (
        "scores",
        "The column `scores.failure_code`. These are the codes of the offline judge and of the prompts' examples. A language "
        "model may give others of its own, in snake_case.",
    ),
    "Faults of a model call": (
        "asks",
        "The column `asks.error` begins with one of these, and so do the reason of a failed score and the error of a case.",
    ),
    "Faults of a record": (
        "rejects",
        "The column `rejects.reason`. [Formats](../formats.md#what-is-not-judged) explains what is read and what is not.",
    ),
}


# Documents


def json_page() -> Page:
    """The fields of every document that a command prints with `--json`."""
    yield "# JSON documents"
    yield wrapped(
        "A command with `--json` prints one JSON document on stdout. Each document has a JSON Schema: `assizes json-schema COMMAND` "
        "prints it, such as `assizes json-schema causes show`. Columns of tables are those of [tables and columns](rows.md). "
        "The schema of report.json is another one: `assizes report --schema` prints it."
    )
    for command in DOCUMENTS:
        schema = document_schema(command)
        yield f"## assizes {command} --json"
        yield from document_blocks(schema, schema.get("$defs", {}))


def document_blocks(schema: Mapping[str, Any], known: Mapping[str, Any]) -> Page:
    """The fields of a schema, a line each; of several documents those of each."""
    schema = resolved(schema, known)
    if schema.get("type") == "array":
        yield wrapped("A list. Each item:")
        yield from document_blocks(schema["items"], known)
    elif "anyOf" in schema:
        yield wrapped("One of several documents.")
        for part in schema["anyOf"]:
            yield from document_blocks(part, known)
    elif fields := schema.get("properties"):
        yield "\n".join(bullet(field_line(name, part, known)) for name, part in fields.items())
    else:
        yield wrapped("An object; its fields depend on what was asked.")


def resolved(schema: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a reference names, else the schema itself."""
    reference = schema.get("$ref")
    return known[reference.rpartition("/")[2]] if reference else schema


def field_line(name: str, part: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """A field with its type and what it means."""
    meaning = part.get("description", "")
    words = " ".join(meaning.split()).rstrip(".")
    return f"`{name}` ({json_type(part, known)})" + (f": {words}." if words else ".")


def json_type(part: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """The type of a value in words of JSON."""
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(json_type(each, known) for each in part["anyOf"]))
    part = resolved(part, known)
    kinds = part.get("type", "any value")
    if isinstance(kinds, list):
        return " or ".join(kinds)
    return f"array of {json_type(part['items'], known)}" if "items" in part else str(kinds)


# Files for other tools


SOURCES: Final = DOCS.parent / "deployments" / "tables" / "sources.yml"
"""The tables as sources of a dbt project."""


def sources_text() -> str:
    """The tables and columns of a DuckDB store as a sources file of dbt."""
    lines = [
        "# Written by `make reference`. The tables of an Assizes store as sources of a dbt project.",
        "# docs/how-to/tables.md says how a profile of dbt-duckdb attaches the store.",
        "version: 2",
        "sources:",
        "  - name: assizes",
        "    database: assizes",
        "    schema: main",
        "    tables:",
    ]
    for table, columns in TABLES.items():
        lines.append(f"      - name: {table}")
        lines.append(f"        description: {quoted(TEXTS['tables'][table])}")
        lines.append("        columns:")
        for column in columns:
            lines.append(f"          - name: {column}")
            lines.append(f"            description: {quoted(TEXTS['columns'][table][column])}")
    return "\n".join(lines) + "\n"


CSV: Final = SOURCES.with_name("to_csv.sql")
POSTGRES: Final = SOURCES.with_name("postgres.sql")
"""What writes the tables to CSV files in DuckDB, and what reads these into PostgreSQL by psql."""


def csv_text() -> str:
    """Statements for DuckDB that write each table to a CSV file; lists become JSON."""
    lines = [
        "-- Written by `make reference`. DuckDB, connected to a store: a CSV file for each table.",
    ]
    for table, columns in TABLES.items():
        lists = [name for name, dtype in columns.items() if isinstance(dtype, pl.List)]
        as_json = ", ".join(f'to_json("{name}") AS "{name}"' for name in lists)
        chosen = f"* REPLACE ({as_json})" if lists else "*"
        lines.append(f"COPY (SELECT {chosen} FROM {table}) TO '{table}.csv' (HEADER);")
    return "\n".join(lines) + "\n"


def postgres_text() -> str:
    """A script for psql that makes the tables and fills them from the CSV files."""
    lines = [
        "-- Written by `make reference`. psql, in the folder of the CSV files: tables of an Assizes store.",
        "-- The tables are filled anew each time, all of them or none.",
        "\\set ON_ERROR_STOP on",
        "BEGIN;",
        "CREATE SCHEMA IF NOT EXISTS assizes;",
    ]
    for table, columns in TABLES.items():
        fields = ", ".join(f'"{name}" {postgres_type(dtype)}' for name, dtype in columns.items())
        names = ", ".join(f'"{name}"' for name in columns)
        lines.append(f"CREATE TABLE IF NOT EXISTS assizes.{table} ({fields});")
        lines.append(f"TRUNCATE assizes.{table};")
        lines.append(f"\\copy assizes.{table} ({names}) FROM '{table}.csv' (FORMAT csv, HEADER)")
    return "\n".join([*lines, "COMMIT;"]) + "\n"


def postgres_type(dtype: Any) -> str:
    """The type of a column in PostgreSQL."""
    if isinstance(dtype, pl.List):
        return "jsonb"
    if isinstance(dtype, pl.Datetime):
        return "timestamptz"
    kinds = {pl.String: "text", pl.Boolean: "boolean", pl.Date: "date", pl.Float64: "float8"}
    return kinds.get(dtype, "bigint")


def quoted(text: str) -> str:
    """A text as a scalar of YAML."""
    return json.dumps(" ".join(text.split()), ensure_ascii=False)


PAGES: Final[Mapping[str, Callable[[], Page]]] = {
    "settings": settings_page,
    "commands": commands_page,
    "rows": rows_page,
    "http": http_page,
    "python": python_page,
    "json": json_page,
    "exit-codes": exit_codes_page,
    "failure-codes": failure_codes_page,
}


FILES: Final[Mapping[Path, Callable[[], str]]] = {
    SOURCES: sources_text,
    CSV: csv_text,
    POSTGRES: postgres_text,
}
"""The files beside the pages, with what writes them."""


def page_text(name: str) -> str:
    """The text of one page."""
    return HEAD + "\n" + "\n\n".join(block for block in PAGES[name]() if block) + "\n"


def main() -> None:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    for name in PAGES:
        (FOLDER / f"{name}.md").write_text(page_text(name), encoding="utf-8")
    for path, text in FILES.items():
        path.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
