"""`assizes import`: foreign transcripts into lines of one format, with a fidelity report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assizes.deployments.commands.output import print_json, print_line, print_table
from assizes.judge.config.run import TranscriptsConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.formats import NAMES
from assizes.judge.formats.shared.fidelity import lines
from assizes.judge.formats.writing import WRITERS
from assizes.tasks.intake.importing import Imported, import_transcripts

_HELD = ("turns", "tool_calls", "tool_results", "chunks")


@dataclass(frozen=True, slots=True)
class Wanted:
    """An import as asked for on the command line."""

    format: str
    source: str
    out: Path
    to: str
    labels: Path | None
    endpoint_url: str | None


def import_and_print(wanted: Wanted, *, force: bool, as_json: bool) -> int:
    """Convert, then tell what became of everything.

    Raises:
        ConfigurationError: for a format that is not known, a file that is there, or one file for
            both.
        Inconclusive: nothing could be read.
    """
    labels = wanted.labels or wanted.out.with_name(f"{_stem(wanted.out)}.labels.jsonl")
    _check(wanted, labels, force=force)
    options: dict[str, Any] = {"endpoint_url": wanted.endpoint_url} if wanted.endpoint_url else {}
    config = TranscriptsConfig.model_validate(
        {"uri": wanted.source, "format": wanted.format, "storage_options": options}
    )
    found = import_transcripts(config, wanted.out, wanted.to, labels)
    written = {"out": str(wanted.out), "labels_file": str(labels) if found.labels else None}
    if as_json:
        print_json({**vars(found), **written})
    else:
        _print(found, wanted.out, labels)
    return 0


def _check(wanted: Wanted, labels: Path, *, force: bool) -> None:
    if wanted.format not in ("auto", *NAMES):
        raise ConfigurationError.unknown("format", wanted.format, ("auto", *NAMES), "import")
    if wanted.to not in ("native", *WRITERS):
        raise ConfigurationError.unknown("format", wanted.to, ("native", *WRITERS), "--to")
    if labels.resolve() == wanted.out.resolve():
        raise ConfigurationError(
            f"--labels {str(labels)!r} is the file the transcripts go to; name another"
        )
    for one in (wanted.out, labels):
        if one.exists() and not force:
            raise ConfigurationError(f"{str(one)!r} is there; --force overwrites it")


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def _print(found: Imported, out: Path, labels: Path) -> None:
    came = ", ".join(f"{name} {count}" for name, count in sorted(found.formats.items()))
    print_line(f"{found.cases} of {found.records} records written to {out} ({came})")
    print_table("", ("kept", "#number"), [(name, found.kept[name]) for name in _HELD])
    for line in lines(found.kept):
        print_line(line)
    if found.lost:
        gone = ", ".join(f"{name} {count}" for name, count in sorted(found.lost.items()))
        print_line(f"lost by writing: {gone}")
    for code, count in sorted(found.rejected.items()):
        print_line(f"rejected: {code} {count}")
    for one in found.rejects:
        print_line(f"  {one}")
    if found.labels:
        print_line(f"{found.labels} labels of people in {labels}; `assizes calibrate` reads them")
