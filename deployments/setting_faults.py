"""What is wrong with a configuration, one sentence a fault: where, what, and what is accepted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

from pydantic import BaseModel, ValidationError

from assizes.judge.config.run import RunConfig

Setting: TypeAlias = tuple[str, ...]
"""The path of a setting in the configuration: `("judge", "model")`."""

_MUST_BE: Final[Mapping[str, str]] = {  # type of pydantic's error -> what is accepted
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "date_from_datetime_parsing": "must be a date such as 2026-11-21",
    "dict_type": 'must be a table: { NAME = "..." }',
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "model_type": "must be a table",
    "string_type": 'must be a text in quotes: "..."',
    "tuple_type": 'must be a list: ["..."]',
}

_BOUNDS: Final[Mapping[str, str]] = {  # type of pydantic's error -> what is accepted
    "greater_than": "must be over {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than": "must be under {lt:g}",
    "less_than_equal": "must be {le:g} or less",
}


_WHOLE: Final = 100  # percent

_MOST_HOMES: Final = 3  # tables that are named for a setting that many have

_PAIRS: Final = ("--column", "--word")
"""Options that give one entry of a table each, as NAME=VALUE."""

_SECRET: Final = ("api_key", "key", "password", "secret", "token")
"""Names under which secrets are put into configurations."""


def fault_text(error: ValidationError, where: str, given_by: Mapping[Setting, str]) -> str:
    """Every fault of a configuration in one line.

    `where` names the configuration, e.g. by its file; `given_by` the settings that come from
    elsewhere, such as `--set judge.model`.
    """
    faults: dict[str, list[str]] = {}  # place -> its faults, in order
    # What was written comes before what is missing: one is often the other, misspelt.
    for detail in sorted(
        error.errors(include_url=False), key=lambda each: each["type"] == "missing"
    ):
        path = tuple(str(part) for part in detail["loc"])
        place = _given_by(path, given_by)
        name = f"{setting_name(path)}: " if path and not place else ""
        faults.setdefault(place or where, []).append(f"{name}{fault_of(path, detail, place or '')}")
    return "; ".join(f"{place}: {'; '.join(texts)}" for place, texts in faults.items())


def setting_name(path: Setting) -> str:
    """A setting as people look for it in the file: `[judge] model`, or `name` at its beginning."""
    table, *rest = path
    return f"[{table}] {'.'.join(rest)}" if rest else table


def missing_file_text(folder: Path) -> str:
    """What to do where no configuration file is; `folder` is the one that was searched."""
    above = (parent / "assizes.toml" for parent in folder.parents)
    nearest = next((file for file in above if file.is_file()), None)
    other = f"`-c {nearest}` takes the nearest" if nearest else "`-c FILE` names another"
    return (
        f"no configuration: there is no assizes.toml in {folder}; `assizes init FOLDER` writes one "
        f"for the transcripts in a folder, {other}"
    )


def misspelt_variable(names: Iterable[str], prefix: str) -> str | None:
    """The fault of the first environment variable that means a setting and does not name it."""
    known = {"__".join(path).upper(): path for path in settings()}
    flat = {name.replace("__", "_"): name for name in known}
    tables = {path[0].upper() for path in known.values()}
    for name in sorted(names):
        written = name.removeprefix(prefix)
        table, separator, _ = written.partition("__")
        if not separator and written in flat:
            return f"{name}: a setting has two underscores: {prefix}{flat[written]}"
        if separator and table not in tables:
            meant = _closest(written, known) or _closest(table, tables)
            suggestion = f"; did you mean {prefix}{meant}?" if meant else f"; {_tables_text()}"
            return f"{name}: no such table as [{table.lower()}]{suggestion}"
    return None


def _given_by(path: Setting, given_by: Mapping[Setting, str]) -> str | None:
    """Which of the places gave a setting, the table around it, or the unknown table that it is."""
    around = [given_by[path[:n]] for n in range(len(path), 0, -1) if path[:n] in given_by]
    below = [place for each, place in given_by.items() if each[: len(path)] == path]
    unknown = bool(path) and path[0] not in RunConfig.model_fields
    place = next(iter(around + below if unknown else around), None)
    return f"{place} {path[-1]}" if place in _PAIRS else place


def fault_of(path: Setting, detail: Any, place: str = "") -> str:
    """What is wrong with one setting, by an error of pydantic; `place` is where it was given."""
    kind, value, bounds = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return f"no such setting; {_meant(path, place)}"
    if kind == "missing":
        return f"required; {_REQUIRED.get(path, 'give it a value')}"
    if kind == "literal_error":
        accepted = bounds["expected"].replace("'", '"')
        near = _closest(str(value), accepted.split('"')[1::2])
        text = f"must be {accepted}" + (f'; did you mean "{near}"?' if near else "")
    elif kind in _BOUNDS:
        text = _BOUNDS[kind].format(**bounds)
        if bounds.get("le") == 1 and isinstance(value, int | float) and value <= _WHOLE:
            text += f"; {value:g} % is {value / _WHOLE:g}"
    elif path == ("name",) and kind == "string_pattern_mismatch":
        text = 'must be small letters, digits, "-" and "_", at most 63, e.g. "my-nightly"'
    else:
        text = _MUST_BE.get(kind) or detail["msg"].removeprefix("Value error, ")
        text += _instead(path, detail, place)
    # A table would fill the line, and its name says enough.
    return text if isinstance(value, dict | list) else f"{text} (given {value!r})"


def _instead(path: Setting, detail: Any, place: str) -> str:
    """What is written in place of a value of the wrong kind, where one is often given."""
    kind = detail["type"]
    if path == ("transcripts", "uri") and isinstance(detail["input"], list):
        return "; a folder or a glob names many files"
    if path[:2] == ("judge", "metrics") and kind == "model_type":
        return ' or a name in quotes: "..."'
    if kind == "model_type" and place.startswith("--set"):
        return f"; write --set {'.'.join(path)}.FIELD=VALUE"
    if kind == "model_type" and len(path) == 1:
        return f"; write [{path[0]}] in one pair of brackets, and its settings below"
    return ""


_REQUIRED: Final[Mapping[Setting, str]] = dict.fromkeys(
    [("transcripts",), ("transcripts", "uri")],
    'say where your conversations are: [transcripts] uri = "FOLDER"; `assizes init FOLDER` writes '
    "a whole file",
)


def _as_written(path: Setting, place: str) -> str:
    """A setting or a table, written as in the place where a wrong one stands."""
    if place.startswith("--set"):
        return ".".join(path)
    if place.startswith("environment"):
        return f"ASSIZES_{'__'.join(path)}".upper()
    return f"[{path[0]}]" if len(path) == 1 and _is_table(path) else setting_name(path)


def _meant(path: Setting, place: str) -> str:
    """Which setting was probably meant by one that is unknown, or which ones there are."""
    *above, name = path
    if name in _SECRET:
        return "secrets belong in the environment, e.g. OPENAI_API_KEY"
    fields = list(_model_at(tuple(above)).model_fields)
    if near := _closest(name, fields):
        return f"did you mean {_as_written((*above, near), place)}?"
    homes = [_as_written(each, place) for each in settings() if each[1:] == (name,)]
    if homes:
        return f"did you mean {' or '.join(homes[:_MOST_HOMES])}?"
    return f"[{'.'.join(above)}] has {', '.join(fields)}" if above else _tables_text()


def _tables_text() -> str:
    tables = [name for name in RunConfig.model_fields if _is_table((name,))]
    return f"the tables are {', '.join(f'[{name}]' for name in tables)}"


def _closest(name: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, list(known), 1)), None)


def settings() -> Iterator[tuple[str, str]]:
    """Every setting of two steps, a table and its field."""
    for table in RunConfig.model_fields:
        if _is_table((table,)):
            yield from ((table, name) for name in _model_at((table,)).model_fields)


def _is_table(path: Setting) -> bool:
    return _model_of(_model_at(path[:-1]).model_fields[path[-1]].annotation) is not None


def _model_at(path: Setting) -> type[BaseModel]:
    """The model whose fields stand below a path; steps into a list or a free table add nothing."""
    model: type[BaseModel] = RunConfig
    for step in path:
        if step in model.model_fields:
            model = _model_of(model.model_fields[step].annotation) or model
    return model


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation such as `tuple[Rule, ...] | None`, if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_of, get_args(annotation))), None)
