"""`assizes init` and `import`: a configuration that fits transcripts, and transcripts converted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assizes.deployments.commands.output import print_json, print_line, print_lines, print_table
from assizes.judge.case import Case
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, Inconclusive
from assizes.judge.families.deterministic import REWARD
from assizes.judge.formats import NAMES, WRITERS
from assizes.judge.formats.shared.parsing import fidelity_lines
from assizes.tasks.intake.importing import ImportResult, import_transcripts
from assizes.tasks.intake.shards import plan_intake, read_shard
from assizes.tasks.sources.spool import Spool

SAMPLE_SIZE = 200
"""Cases that are read to see formats, tools and ground truth."""

TEMPLATE = """\
# Assizes: what to judge, by whom, and what counts as worse. `assizes doctor` checks this file.
name = "nightly"

[transcripts]
uri = {uri}              # file, folder, glob or s3:// URI; {{date:%Y-%m-%d}} is filled by --date
format = "{format}"{seen}
# where = {{ channel = "voice" }}     # keep cases whose tag, agent or agent_version equals
# sample = 0.2                      # judge a stable share of the cases; or number = 200
# filter = "turn_count > 3 AND tags.channel = 'voice'"
{writes}

[privacy]
redact = ["secret"]                 # before judge and store; also "email", "phone", "card", "iban"

[judge]
# The offline baseline needs no key. A language model: model = "openai/gpt-4.1" and OPENAI_API_KEY.
model = "offline/lexical"
judges = ["conversation"{recorded}]  # `assizes judges` lists them; recorded: rewards in the data
pass_threshold = 75.0               # overall score 0-100, for cases without expected outcomes
# metrics = ["tool_routing", {{ metric = "task_completion", weight = 0.5 }}]

[limits]
max_in_flight = 32                  # model calls at once
timeout_s = 120.0                   # wall clock of one call

[thresholds]
metrics_pass_threshold = 80.0       # mean overall score of the run, 0-100
cases_pass_threshold = 100.0        # passed cases, percent; errors count as not passed
min_coverage = 0.95                 # scored / due; under it the run is inconclusive

[comparison]
baseline = "latest"                 # the run before, of the same name; or a run id
max_pass_rate_drop = 0.0            # fraction: any drop is a regression
max_avg_score_drop = 5.0            # points on the 0-100 scale
max_latency_increase_pct = 0.2      # fraction: 20 percent
mode = "both"                       # what decides: rules, statistics, or both (rules, both shown)
margin = 2.0                        # for the statistics: smallest drop that matters, points

[store]
uri = "duckdb:///assizes.duckdb"    # or a folder, or s3://bucket/prefix, for Parquet

[report]
uri = "reports"
"""


def write_config(uri: str, file: Path, *, force: bool) -> None:
    """Read a sample of the transcripts and write a configuration file with what was seen in them.

    Raises:
        ConfigurationError: the file exists or cannot be written, or there is nothing at the URI.
    """
    if file.exists() and not force:
        raise ConfigurationError(f"{file} exists; --force overwrites it")
    cases, formats = _read_sample(uri)
    text = TEMPLATE.format(
        uri=_toml_string(uri),
        format=formats[0] if len(formats) == 1 else "auto",
        seen=_sample_comment(cases, formats),
        writes=_writes_comment(cases),
        recorded=', "recorded"' if any(REWARD in case.labels for case in cases) else "",
    )
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be written: {error.strerror}; give a file in a folder that is there"
        ) from None
    print_line(f"wrote {file}; next: assizes run -c {file}")


def _read_sample(uri: str) -> tuple[list[Case], list[str]]:
    """Read up to `SAMPLE_SIZE` cases; returns them with the names of their formats."""
    config = TranscriptsConfig(uri=uri, limit=SAMPLE_SIZE)
    with Spool() as spool:
        try:
            plan = plan_intake(config, SAMPLE_SIZE, spool)  # one shard holds all
        except Inconclusive:  # nothing is there yet: the file is written all the same
            return [], []
        records = [r for shard in plan.shards for r in read_shard(shard, config, spool)]
        formats = sorted({shard.format for shard in plan.shards})
    return [record.case for record in records if record.case is not None], formats


def _sample_comment(cases: list[Case], formats: list[str]) -> str:
    if not cases:
        return "                     # nothing readable there yet"
    outcomes = sum(bool(case.expected.outcomes) for case in cases)
    calls = sum(case.expected.tool_calls is not None for case in cases)
    known = f"{outcomes} with expected outcomes, {calls} with expected tool calls"
    return f"  # seen: {len(cases)} cases ({', '.join(formats)}), {known}"


def _writes_comment(cases: list[Case]) -> str:
    """The comment on the setting `writes`, with the tools of the cases where no case names them."""
    used = {call.name for case in cases for _, call in case.transcript.calls()}
    known = any(
        case.expected.writes is not None or any(t.writes is not None for t in case.transcript.tools)
        for case in cases
    )
    if not used or known:
        gap = " " * 23  # to the column of the other comments
        return f"# writes = []{gap}# tools that change state, where cases do not say"
    names = ", ".join(_toml_string(name) for name in sorted(used))
    return (
        "# Keep the tools that change state; the offline judge and the evidence compare these:\n"
        f"# writes = [{names}]"
    )


def _toml_string(text: str) -> str:
    """A text as a one-line TOML string; `ConfigurationError` for a lone surrogate."""
    if any("\ud800" <= char <= "\udfff" for char in text):  # in names of files that are no UTF-8
        raise ConfigurationError(
            f"{text!r} is no UTF-8 and cannot be written into a configuration; give another name"
        )
    # JSON's escapes are TOML's too, so no name in a transcript ends the string and adds a setting.
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The arguments of `assizes import`."""

    format: str  # of the source, or "auto"
    source: str  # file, folder, glob or s3:// URI
    out: Path
    to: str  # format to write
    labels: Path | None  # file for labels of people; None: beside `out`
    endpoint_url: str | None  # of an S3 store other than AWS


def import_and_print(wanted: ImportOptions, *, force: bool, as_json: bool) -> None:
    """Convert transcripts and print what was kept, lost and rejected.

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
