"""`assizes doctor`: check what a run needs, and say what to do about each fault."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from assizes.deployments.commands.output import print_json, print_table
from assizes.deployments.settings import configured_api_url, prepare_environment, read_config
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.run import CacheConfig, NightlyConfig, ReportConfig, RunConfig
from assizes.judge.engine.ensemble_hearing import members
from assizes.judge.errors import AssizesError, ConfigurationError, Halted, NoStore
from assizes.judge.model_assignment import assign_callable_models
from assizes.tasks.embedding.sentence_encoder import check_space
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.intake.run_sources import check_placeholders
from assizes.tasks.intake.sample import check_first_records
from assizes.tasks.publishing.reach import check_place
from assizes.tasks.runtime.places import write_probe
from assizes.tasks.runtime.prefect_server import API_TIMEOUT_S, is_healthy, running_server
from assizes.tasks.sources.listing import list_sources
from assizes.tasks.sources.trace_copies import check_trace_store
from assizes.tasks.spending.ledger_file import all_runs_stopped_at, probe_ledger, spending_today
from assizes.tasks.store import existing_store, store_file
from assizes.tasks.trace_stores.address import is_trace_store


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    state: Literal["ok", "note", "fault"]  # note: works, worth knowing; fault: a run would fail
    finding: str  # one line


FIRST_RECORDS = 200
"""Records that are read to see whether they can be judged."""


def check_installation(file: Path | None, overrides: list[str], *, as_json: bool) -> int:
    """Run all checks and print their findings; returns 2 when any check found a fault, else 0."""
    checks = list(_checks(file, overrides))
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        rows = [(check.name, check.state, check.finding) for check in checks]
        print_table("", ("check", "state", "finding"), rows)
    return 2 if any(check.state == "fault" for check in checks) else 0


def _checks(file: Path | None, overrides: list[str]) -> Iterator[Check]:
    names = ("assizes", "prefect", "litellm", "polars", "duckdb", "s3fs")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    yield Check("versions", "ok", f"python {sys.version.split()[0]}, {versions}")
    yield from _check_server()
    try:
        config = read_config(file, overrides)
    except AssizesError as error:
        yield Check("configuration", "fault", str(error))
        return
    # Each returns a finding, or a check that is more than ok, or raises a fault.
    probes: dict[str, Callable[[RunConfig], str | Check]] = {
        "judges and metrics": _judges,
        "model": _model,
        "model calls": _calls,
        "causes": _causes,
        "transcripts": _transcripts,
        "store": _store,
        "reply cache": lambda config: _writable(config.cache, "cache"),
        "ledger": _ledger,
        "reports": lambda config: _writable(config.report, "report"),
        "publishing": _publishing,
        "nightly": _nightly,
    }
    for name, probe in probes.items():
        try:
            finding = probe(config)
            yield finding if isinstance(finding, Check) else Check(name, "ok", finding)
        except (AssizesError, OSError) as error:
            yield Check(name, "fault", " ".join(str(error).split()))


def _check_server() -> Iterator[Check]:
    name = "prefect server"
    try:
        url = configured_api_url()
        server = None if url else running_server()
    except AssizesError as error:
        yield Check(name, "fault", str(error))
        return
    if url and not is_healthy(url, API_TIMEOUT_S):
        yield Check(name, "fault", f"{url} does not answer; start it or unset it")
    elif url:
        yield Check(name, "ok", f"{url} (as configured)")
        yield from _check_deployments(url)
    elif server:
        yield Check(name, "ok", f"{server.api_url} (started by `assizes up`)")
        yield from _check_deployments(server.api_url)
    else:
        finding = "none: each command starts a temporary one; `assizes up` keeps one running"
        yield Check(name, "note", finding)


def _check_deployments(api_url: str) -> Iterator[Check]:
    """A fault for deployments whose modules are named as before the package `assizes`, if any."""
    prepare_environment()  # before Prefect is imported
    from assizes.deployments.registration.begin import outdated_deployments

    try:
        names = outdated_deployments(api_url)
    except (AssizesError, RuntimeError) as error:  # of another version, Prefect says by the latter
        yield Check("deployments", "note", " ".join(f"cannot be listed: {error}".split()))
        return
    if names:
        fault = "an earlier version registered them, and their code has moved since"
        remedy = "their runs fail; `assizes deploy` registers them anew"
        yield Check("deployments", "fault", f"{', '.join(names)}: {fault}; {remedy}")


def _judges(config: RunConfig) -> str:
    panel = resolve_judges(config.judge)
    weights = ", ".join(f"{name} {weight:.3f}" for name, weight in panel.weights.items())
    return f"{', '.join(config.judge.judges)}; weights: {weights or 'none'}"


def _model(config: RunConfig) -> str:
    assignment = assign_callable_models(config, resolve_judges(config.judge))
    others = [
        f"{name}: {' + '.join(model.name for model in members([own]))}"
        for name, own in assignment.own.items()
        if own is not assignment.shared
    ]
    shared = [] if config.judge.panel else [assignment.shared.name]  # a panel stands in its place
    return "; ".join([*shared, *others])


def _calls(config: RunConfig) -> str | Check:
    """How each model is called: directly, or through litellm's function, which takes more CPU."""
    assignment = assign_callable_models(config, resolve_judges(config.judge))
    models = members([assignment.shared, *assignment.own.values()])
    calls = {model.name: getattr(model, "calls", None) for model in models}
    ways = {name: each.way() for name, each in calls.items() if each is not None}
    finding = "; ".join(f"{name}: {way}" for name, way in ways.items()) or "no provider is called"
    is_plain = any(way != "direct" for way in ways.values())
    return Check("model calls", "note" if is_plain else "ok", finding)


def _causes(config: RunConfig) -> str:
    check_space(config.causes)
    return f"reasons are compared by {config.causes.space}"


def _transcripts(config: RunConfig) -> str | Check:
    transcripts = config.transcripts
    if is_trace_store(transcripts.uri):
        return check_trace_store(transcripts)
    if "{" in transcripts.uri:
        check_placeholders(transcripts.uri)
        return f"{transcripts.uri}: has a date placeholder, not listed"
    sources = list_sources(transcripts.uri, transcripts.storage_options)
    size = sum(source.size for source in sources)  # bytes
    listed = f"{transcripts.uri}: {len(sources)} objects, {size / 1e6:.1f} MB"
    first = check_first_records(transcripts, CasePreprocessor.from_config(config), FIRST_RECORDS)
    if not first.read:
        raise ConfigurationError(f"{listed}, no record; [transcripts] uri names other files")
    if first.rejected == first.read:
        raise ConfigurationError(
            f"{listed}; none of the first {first.read} records can be read: {first.rejects}"
        )
    if first.rejected:
        share = f"{first.rejected} of the first {first.read} records cannot be read"
        return Check("transcripts", "note", f"{listed}; {share}: {first.rejects}")
    return f"{listed}; the first {first.read} records can be read"


def _store(config: RunConfig) -> str:
    uri = config.store.uri
    if (file := store_file(uri)) is None:  # Parquet, in a folder or a bucket
        write_probe(uri, config.store.storage_options, "[store] uri")
    try:
        with existing_store(config.store) as store:
            writers = "several writers" if store.many_writers else "one writer at a time"
            return f"{uri}: {store.run_index().height} runs, {writers}"
    except NoStore:  # the first run makes it
        if file is not None:
            write_probe(str(file.parent), {}, "[store] uri")
        return f"{uri}: will be created"


def _writable(section: CacheConfig | ReportConfig, name: str) -> str:
    write_probe(section.uri, section.storage_options, f"[{name}] uri")
    return f"{section.uri}: can be written"


def _publishing(config: RunConfig) -> str:
    return check_place(config) or "[publish] names no place: scores stay here"


def _nightly(config: RunConfig) -> str:
    """When nightly runs start; `assizes deploy` refuses the same expressions."""
    nightly = config.nightly
    if not nightly.cron.strip():
        return '[nightly] cron = "": no schedule'
    if nightly.cron != NightlyConfig().cron:  # that one is good, and Prefect slow to import
        prepare_environment()  # before Prefect is imported
        from assizes.deployments.registration.schedule import cron_schedule

        cron_schedule(nightly)
    return f"{nightly.cron} in {nightly.time_zone}"


def _ledger(config: RunConfig) -> str:
    path = config.limits.ledger
    probe_ledger(path)
    if (at := all_runs_stopped_at(path)) is not None:
        raise Halted(f"{path}: all runs were stopped at {at}; `assizes stop --lift` lifts that")
    if not Path(path).exists():
        return f"{path}: will be created"
    today = spending_today(path)
    return f"{path}: {today.calls} calls and {today.usd:.4f} USD today (UTC)"
