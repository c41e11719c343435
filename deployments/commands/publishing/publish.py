"""`assizes publish RUN`: what it sends, and what it says about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assizes.deployments.commands.output import print_json, print_line, print_lines, print_table
from assizes.deployments.commands.stores import opened_store, store_config
from assizes.deployments.settings import read_optional_config
from assizes.judge.config.publishing import PublishConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.publishing.deliveries import delivery_log
from assizes.tasks.publishing.publisher import Publisher, PublishReport


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """What is published, and how; what is None comes from the configuration."""

    run: str
    to: str | None = None
    include: Sequence[str] | None = None
    dry_run: bool = False
    retry_refused: bool = False


def publish_and_print(
    file: Path | None, uri: str | None, options: PublishOptions, *, as_json: bool
) -> int:
    """Send the findings of a run, say what was sent, and return the exit code.

    Raises:
        ConfigurationError: no place is named, its keys are missing or not accepted, or the run is
            not complete.
        StoreBusy: another process is publishing the run.
    """
    config = _settings(file, options)
    where = store_config(file, uri)
    with opened_store(file, uri) as store:
        record = store.run(options.run)
        report = Publisher(store, delivery_log(where), config).publish(
            record, dry_run=options.dry_run, retry_refused=options.retry_refused
        )
    if as_json:
        print_json(report.document())
    else:
        print_report(report)
    return report.exit_code


def _settings(file: Path | None, options: PublishOptions) -> PublishConfig:
    """The table [publish] with what the command line gives in its place."""
    configured = read_optional_config(file).publish.model_dump(exclude_unset=True)
    given = {"to": options.to, "include": options.include or None}
    body = configured | {name: value for name, value in given.items() if value is not None}
    try:
        return PublishConfig.model_validate(body)
    except ValueError as error:
        names = "scores, verdicts, reasons, causes, labels"
        places = "langfuse://project, mlflow://experiment, phoenix://project, otlp"
        raise ConfigurationError(
            f"--to {options.to!r}, --include {list(options.include or ())}: accepted are one of "
            f"{places}; and any of {names}"
        ) from error


def print_report(report: PublishReport) -> None:
    """Print what was sent, or would be."""
    verb = "would send" if report.dry_run else "sent"
    kinds = ", ".join(f"{count} {kind}s" for kind, count in sorted(report.sent.items()))
    print_line(f"{report.run_id} to {report.destination}: {verb} {kinds or 'nothing'}")
    if report.first:
        rows = [
            (
                item["case_id"],
                item["kind"],
                item["name"],
                item["value"],
                item["label"] or item["error"],
            )
            for item in report.first
        ]
        print_table("", ("case", "kind", "name", "#value", "label or error"), rows)
        if (more := sum(report.sent.values()) - len(report.first)) > 0:
            print_line(f"... and {more} more")
    counts = (
        (report.unchanged, "were there already, unchanged"),
        (report.refused_before, "were refused before; --retry-refused sends them again"),
        (report.without_target, "cases have no known trace or session there"),
        (report.refused, "were refused:"),
    )
    print_lines(f"  {count} {what}" for count, what in counts if count)
    print_lines(f"    {reason}" for reason in report.reasons)
    if report.unanswered:
        print_line(
            f"  {report.unanswered} are not known to have arrived: `assizes publish {report.run_id}` "
            "settles them"
        )
    if report.stopped:
        print_line(f"  stopped: {report.stopped}")
