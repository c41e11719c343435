"""`assizes init` and `import`: a configuration that fits transcripts, and transcripts converted."""

from __future__ import annotations

import datetime as dt
import glob
import os
import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from assizes.deployments.commands.model_probe import probe_model
from assizes.deployments.commands.output import print_json, print_line, print_lines, print_table
from assizes.deployments.commands.starter import Starter, chosen_judges
from assizes.deployments.settings import validate_config
from assizes.judge.config.columns import TranscriptColumns
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, Inconclusive
from assizes.judge.formats import NAMES, WRITERS
from assizes.judge.formats.shared.parsing import fidelity_lines
from assizes.tasks.intake.importing import ImportResult, import_transcripts
from assizes.tasks.intake.reader import is_table
from assizes.tasks.intake.run_sources import yesterday
from assizes.tasks.intake.sample import SAMPLE_OBJECTS, TranscriptSample, look_at
from assizes.tasks.sources.csv_files import is_csv

_OLLAMA_ADDRESS: Final = "http://localhost:11434"
_COLUMNS_SHOWN: Final = 12  # of a table that was not understood
_LINES: Final = (".jsonl", ".ndjson")  # endings of files with a line of JSON for each item


@dataclass(frozen=True, slots=True)
class InitOptions:
    """The arguments of `assizes init` besides the place of the transcripts and the file."""

    day: dt.date | None = None  # fills the date placeholders of the place, for the look at it
    model: str | None = None  # checked by one call, and written; `None`: the offline baseline
    api_base: str | None = None  # of the model
    columns: Sequence[str] = ()  # "id=ticket": settings of [transcripts.columns]
    endpoint_url: str | None = None  # of an S3 store other than AWS

    @property
    def model_address(self) -> str | None:
        """Where the model answers, as far as it is known; Ollama has an address by default."""
        is_ollama = (self.model or "").startswith(("ollama/", "ollama_chat/"))
        if self.api_base is None and is_ollama and not os.environ.get("OLLAMA_API_BASE"):
            return _OLLAMA_ADDRESS
        return self.api_base

    def transcripts(self, uri: str) -> TranscriptsConfig:
        """How the transcripts at a place are reached."""
        storage = {"endpoint_url": self.endpoint_url} if self.endpoint_url else {}
        return TranscriptsConfig(uri=uri, storage_options=storage)


def write_config(uri: str, file: Path, *, force: bool, options: InitOptions | None = None) -> None:
    """Read a sample of the transcripts and write a configuration file with what was seen in them.

    Nothing is written where no record can be read, or where the model does not answer.

    Raises:
        ConfigurationError: the file exists or cannot be written, there is nothing at the URI, or
            the model cannot be called.
        Inconclusive: no record can be read; the message says why.
    """
    wanted = options or InitOptions()
    _check_arguments(uri, file, wanted, force=force)
    sample = _look(uri, wanted)
    address = wanted.model_address
    text = Starter(uri, sample, wanted.model, address, wanted.endpoint_url).text()
    # Before the model is paid for: no run takes a file that this refuses, such as one with a key.
    validate_config(tomllib.loads(text), "nothing was written")
    answer = None
    if wanted.model is not None:
        answer = probe_model(JudgeConfig(model=wanted.model, api_base=address))
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(file, error.strerror) from None
    _print_findings(sample, answer)
    day_option = "" if wanted.day is None else f" --date {wanted.day}"
    print_line(f"wrote {file}; next: assizes run -c {shlex.quote(str(file))}{day_option}")


def _look(uri: str, wanted: InitOptions) -> TranscriptSample:
    """A sample of the transcripts; at least one case could be read."""
    columns = _known_columns(wanted.columns)
    try:
        sample = look_at(wanted.transcripts(uri), wanted.day, columns)
    except Inconclusive as error:  # an empty folder
        raise Inconclusive(
            f"nothing was written: {error}; name the place of your transcripts, or see `assizes demo`"
        ) from None
    except ConfigurationError as error:
        other_day = "" if wanted.day is None else "; --date names another day"
        raise ConfigurationError(f"nothing was written: {error}{other_day}") from None
    if not sample.cases:
        raise Inconclusive(_unreadable(uri, sample))
    return sample


def _check_arguments(uri: str, file: Path, wanted: InitOptions, *, force: bool) -> None:
    if file.exists() and not force:
        raise ConfigurationError(f"{file} exists; --force overwrites it, -o names another file")
    if not file.parent.is_dir():
        raise _unwritable(file, "no such folder")
    if not ("://" in uri or "{" in uri or glob.has_magic(uri) or Path(uri).exists()):
        raise ConfigurationError(
            f"nothing was written: {uri!r} does not exist; name the place of your transcripts, as in "
            "`assizes init FOLDER`, `assizes init chats.csv` or `assizes init s3://bucket/prefix/`"
        )
    if wanted.api_base is not None and wanted.model is None:
        raise ConfigurationError("--api-base is the address of a model: name it with --model")
    if "{date" in uri and wanted.day is None:
        day = yesterday(dt.datetime.now(dt.UTC), "UTC")
        raise ConfigurationError(
            f"{uri!r} holds a place for a date; say which day to look at: "
            f"assizes init {shlex.quote(uri)} --date {day}"
        )


def _unwritable(file: Path, why: str | None) -> ConfigurationError:
    return ConfigurationError(
        f"{file} cannot be written: {why}; give a file in a folder that is there"
    )


def _known_columns(pairs: Sequence[str]) -> dict[str, Any]:
    """The settings of [transcripts.columns] in `--column` options."""
    known: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip() or not value:
            raise ConfigurationError(
                f"--column {pair!r}: write what the column holds and its name, as in id=ticket; "
                "a word of the column role as in roles.caller=user"
            )
        setting, _, word = name.strip().partition(".")
        if setting == "roles":
            known.setdefault("roles", {})[word] = value
        elif setting == "tags":
            known.setdefault("tags", []).append(value)
        else:
            known[setting] = value
    return known


def _unreadable(uri: str, sample: TranscriptSample) -> str:
    """Why nothing is written, and what to do."""
    objects = f"{sample.objects} {'file' if sample.objects == 1 else 'files'}"
    # Every object was refused as a whole: no format fits, so that only columns can help.
    if sample.table and sample.rejected == min(sample.objects, SAMPLE_OBJECTS):
        names = ", ".join(sample.table[:_COLUMNS_SHOWN])
        names += " (its first row)" if is_csv(uri) else ""
        return (
            f"nothing was written: {uri!r} has no known format (docs/formats.md), and as a table with "
            f"the columns {names} it shows no conversation; name the columns, as in --column "
            "id=ticket --column role=speaker --column text=message (or conversation=..., or "
            "request=... and response=...)"
        )
    reasons = "; ".join(sample.reasons) or "they are empty"
    if sample.speakers:
        return (
            f"nothing was written: no conversation can be read in {objects} under {uri!r}, for nobody "
            f"knows these speakers: {_speakers_text(sample)}"
        )
    return (
        f"nothing was written: no conversation can be read in {objects} under {uri!r}: {reasons}; "
        "docs/formats.md shows the formats, and --column names the columns of a table"
    )


def _speakers_text(sample: TranscriptSample) -> str:
    words = sample.speakers[:_COLUMNS_SHOWN]
    example = shlex.quote(f"roles.{words[0]}=user")
    return (
        f"{', '.join(words)}; say who each is, as in --column {example} (or assistant, system, tool, "
        "ignore)"
    )


def _print_findings(sample: TranscriptSample, answer: str | None) -> None:
    """Say what was read, what could not be, and what was chosen for it."""
    objects = f"{sample.objects} {'file' if sample.objects == 1 else 'files'}"
    print_line(f"read {len(sample.cases)} cases ({', '.join(sample.formats)}) of {objects}")
    if sample.rejected:
        print_line(f"{sample.rejected} of {sample.records} records cannot be read:")
        print_lines(f"  {reason}" for reason in sample.reasons)
    if sample.columns is not None:
        print_line(f"{_columns_text(sample.columns)}; please check [transcripts.columns]")
    if sample.speakers:
        print_line(f"nobody knows these speakers: {_speakers_text(sample)}")
    if sample.days is not None:
        print_line(
            f"the names hold days: uri = {sample.days.uri!r} judges one day a run, as in "
            f"assizes run --date {sample.days.newest}; the file has the line as a comment"
        )
    print_line(f"judges: {', '.join(chosen_judges(sample)[0])}")
    if answer is not None:
        print_line(answer)


def _columns_text(columns: TranscriptColumns) -> str:
    names = columns.model_dump(exclude_defaults=True, exclude={"tags", "roles"})
    return "columns: " + ", ".join(f"{name} = {column}" for name, column in names.items())


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The arguments of `assizes import`."""

    format: str  # of the source, or "auto"
    source: str  # file, folder, glob or s3:// URI
    out: Path
    to: str  # format to write
    labels: Path | None  # file for labels of people; None: beside `out`
    endpoint_url: str | None  # of an S3 store other than AWS
    columns: Sequence[str] = ()  # "id=ticket": settings of [transcripts.columns]


def import_and_print(wanted: ImportOptions, *, force: bool, as_json: bool) -> None:
    """Convert transcripts and print what was kept, lost and rejected.

    Raises:
        ConfigurationError: a format is unknown, a file exists already, or transcripts and labels
            would go to the same file.
        Inconclusive: no record could be read.
    """
    _check_endings(wanted)
    stem = wanted.out.name.removesuffix(".gz").removesuffix(".jsonl")
    labels = wanted.labels or wanted.out.with_name(f"{stem}.labels.jsonl")
    _check(wanted, labels, force=force)
    options: dict[str, Any] = {"endpoint_url": wanted.endpoint_url} if wanted.endpoint_url else {}
    try:
        config = TranscriptsConfig.model_validate(
            {"uri": wanted.source, "format": wanted.format, "storage_options": options}
        )
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise ConfigurationError(f"import: {fault['msg'].removeprefix('Value error, ')}") from None
    known = _known_columns(wanted.columns)
    if known and wanted.format != "auto":
        raise ConfigurationError(f"--column: for a table give the format auto, not {wanted.format}")
    if known or (wanted.format == "auto" and is_table(wanted.source)):
        # A table whose rows have a format of their own needs no columns.
        sample = look_at(config, None, known)
        if sample.table and not sample.cases:
            raise Inconclusive(_unreadable(wanted.source, sample))
        config = config.model_copy(update={"columns": sample.columns})
    result = import_transcripts(config, wanted.out, wanted.to, labels)
    written = {"out": str(wanted.out), "labels_file": str(labels) if result.labels else None}
    if config.columns is not None and not as_json:
        print_line(_columns_text(config.columns))
    if as_json:
        print_json({**vars(result), **written})
    else:
        _print(result, wanted.out, labels)


def _check_endings(wanted: ImportOptions) -> None:
    """Refuse files whose endings say that they hold something else than lines of JSON."""
    ending = _ending(wanted.out)
    if ending not in ("", *(f"{each}{packed}" for each in _LINES for packed in ("", ".gz"))):
        raise ConfigurationError(
            f"import {wanted.out}: a transcript is written as a line of JSON; name a file with the "
            "ending .jsonl or .ndjson, or with .gz behind it"
        )
    if wanted.labels is not None and _ending(wanted.labels) not in ("", *_LINES):
        raise ConfigurationError(
            f"--labels {wanted.labels}: a label is written as a line of JSON; name a file with the "
            "ending .jsonl or .ndjson"
        )


def _ending(path: Path) -> str:
    """The ending of a file in small letters, with the one before it where it is packed."""
    name = Path(path.name.lower())
    return Path(name.stem).suffix + name.suffix if name.suffix in (".gz", ".zst") else name.suffix


def _check(wanted: ImportOptions, labels: Path, *, force: bool) -> None:
    if wanted.format not in ("auto", *NAMES):
        raise ConfigurationError.unknown("format", wanted.format, ("auto", *NAMES), "import")
    if wanted.to not in ("native", *WRITERS):
        raise ConfigurationError.unknown("format", wanted.to, ("native", *WRITERS), "--to")
    if labels.resolve() == wanted.out.resolve():  # one would overwrite the other
        taken = f"--labels {str(labels)!r} is the file the transcripts go to"
        raise ConfigurationError(f"{taken}; name another")
    for path in (wanted.out, labels):
        if path.exists() and not force:
            raise ConfigurationError(f"{str(path)!r} is there; --force overwrites it")


def _print(result: ImportResult, out: Path, labels: Path) -> None:
    formats = ", ".join(f"{name} {count}" for name, count in sorted(result.formats.items()))
    print_line(f"{result.cases} of {result.records} records written to {out} ({formats})")
    counted = ("turns", "tool_calls", "tool_results", "chunks")
    print_table("", ("kept", "#number"), [(name, result.kept[name]) for name in counted])
    print_lines(fidelity_lines(result.kept))
    print_lines(f"  not checked in case {line}" for line in result.unchecked)
    if result.lost:
        gone = ", ".join(f"{name} {count}" for name, count in sorted(result.lost.items()))
        print_line(f"lost by writing: {gone}")
    print_lines(f"rejected: {code} {count}" for code, count in sorted(result.rejected.items()))
    print_lines(f"  {reject}" for reject in result.rejects)
    if result.labels:
        print_line(f"{result.labels} labels of people in {labels}; `assizes calibrate` reads them")
