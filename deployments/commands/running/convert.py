"""`assizes import`: convert foreign transcripts to lines of one format, and report the losses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assizes.deployments.commands.output import print_json, print_line, print_table
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.formats import NAMES
from assizes.judge.formats.shared.fidelity import fidelity_lines
from assizes.judge.formats.writing import WRITERS
from assizes.tasks.intake.importing import ImportResult, import_transcripts

_COUNTED_PARTS = ("turns", "tool_calls", "tool_results", "chunks")


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The arguments of `assizes import`.

    Attributes:
        format: format of the input, or `auto`.
        source: file, folder, glob or URI of the input.
        out: file to write.
        to: format to write.
        labels: file for labels of people; `None`: beside `out`.
        endpoint_url: endpoint of an S3 store other than AWS.
    """

    format: str
    source: str
    out: Path
    to: str
    labels: Path | None
    endpoint_url: str | None


def import_and_print(wanted: ImportOptions, *, force: bool, as_json: bool) -> int:
    """Convert transcripts and print what was kept, lost and rejected.

    Args:
        wanted: what to convert.
        force: overwrite existing files.
        as_json: print one JSON document.

    Returns:
        0.

    Raises:
        ConfigurationError: a format is unknown, a file exists already, or transcripts and labels
            would go to the same file.
        Inconclusive: no record could be read.
    """
    stem = wanted.out.name.removesuffix(".gz").removesuffix(".jsonl")
    labels = wanted.labels or wanted.out.with_name(f"{stem}.labels.jsonl")
    _check(wanted, labels, force=force)
    options: dict[str, Any] = {"endpoint_url": wanted.endpoint_url} if wanted.endpoint_url else {}
    config = TranscriptsConfig.model_validate(
        {"uri": wanted.source, "format": wanted.format, "storage_options": options}
    )
    result = import_transcripts(config, wanted.out, wanted.to, labels)
    written = {"out": str(wanted.out), "labels_file": str(labels) if result.labels else None}
    if as_json:
        print_json({**vars(result), **written})
    else:
        _print(result, wanted.out, labels)
    return 0


def _check(wanted: ImportOptions, labels: Path, *, force: bool) -> None:
    if wanted.format not in ("auto", *NAMES):
        raise ConfigurationError.unknown("format", wanted.format, ("auto", *NAMES), "import")
    if wanted.to not in ("native", *WRITERS):
        raise ConfigurationError.unknown("format", wanted.to, ("native", *WRITERS), "--to")
    if labels.resolve() == wanted.out.resolve():
        raise ConfigurationError(
            f"--labels {str(labels)!r} is the file the transcripts go to; name another"
        )
    for path in (wanted.out, labels):
        if path.exists() and not force:
            raise ConfigurationError(f"{str(path)!r} is there; --force overwrites it")


def _print(result: ImportResult, out: Path, labels: Path) -> None:
    formats = ", ".join(f"{name} {count}" for name, count in sorted(result.formats.items()))
    print_line(f"{result.cases} of {result.records} records written to {out} ({formats})")
    print_table("", ("kept", "#number"), [(name, result.kept[name]) for name in _COUNTED_PARTS])
    for line in fidelity_lines(result.kept):
        print_line(line)
    if result.lost:
        gone = ", ".join(f"{name} {count}" for name, count in sorted(result.lost.items()))
        print_line(f"lost by writing: {gone}")
    for code, count in sorted(result.rejected.items()):
        print_line(f"rejected: {code} {count}")
    for reject in result.rejects:
        print_line(f"  {reject}")
    if result.labels:
        print_line(f"{result.labels} labels of people in {labels}; `assizes calibrate` reads them")
