"""The `assizes` command: it parses arguments and reports every fault as one line on stderr."""

from __future__ import annotations

import sys
import traceback
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal, NoReturn

import typer
from typer import Argument, Option

from assizes.deployments import command_output, commands, options, terminal, usage
from assizes.deployments.command_groups import (
    align_cli,
    cascade_cli,
    causes_cli,
    compare_cli,
    judge_tables_cli,
    operating_cli,
    people_cli,
    publish_cli,
    reading_cli,
    rubric_cli,
    store_cli,
    suite_cli,
)
from assizes.judge.errors import AssizesError, ConfigurationError
from assizes.judge.privacy.secret_masking import mask
from assizes.tasks.runtime.file_modes import restrict_new_files
from assizes.tasks.runtime.own_process import collect_seldom, end_process
from assizes.tasks.runtime.process import prepare_process

app = typer.Typer(
    name="assizes",
    cls=options.SectionedGroup,
    help="Judge agent conversations and say whether they got worse.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # rich tracebacks show local variables, so transcripts and keys
    rich_markup_mode=None,  # plain text: as markup of rich, `[nightly]` would be a style
    context_settings={"help_option_names": ["-h", "--help"]},
)

VERBOSE = "--verbose"  # looked for in `sys.argv`, for a defect may come before parsing
INTERRUPTED = 130  # exit code after Ctrl-C (128 + SIGINT)

INTERNAL_ERROR = 70
"""Exit code of a defect in this package (`EX_SOFTWARE` of sysexits.h); 1 means a regression."""


def _print_version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # loads slowly

        print(f"assizes {version('assizes')}")  # noqa: T201  # the command's answer
        raise typer.Exit


@app.callback()
def _every_command(
    verbose: options.Verbose = False,  # read from sys.argv, see VERBOSE
    log_format: Annotated[
        Literal["text", "json"], Option(help="Format of the log on stderr.")
    ] = "text",
    show_version: Annotated[  # its callback prints the version and exits
        bool,
        Option(
            "--version",
            is_eager=True,
            callback=lambda wanted: _print_version(wanted=wanted),
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """Judge agent conversations and say whether they got worse."""
    if log_format == "json":
        terminal.use_json_log()


@app.command()
def demo(
    folder: Annotated[
        Path,
        Option(
            metavar="<path>", parser=options.named_folder, help="Where the demo keeps its files."
        ),
    ] = Path(".assizes/demo"),
    nights: Annotated[
        bool, Option("--nights", help="Three nights with two planted faults; one is mended again.")
    ] = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Run the demo: two runs over bundled transcripts, the second with a planted regression."""
    run = commands.demo.run_nights if nights else commands.demo.run_demo
    raise typer.Exit(run(folder, as_json=as_json, verbose=verbose))


@app.command()
def init(
    uri: Annotated[
        str, Argument(metavar="TRANSCRIPTS", help="File, folder, glob or s3:// URI of transcripts.")
    ] = "transcripts",
    file: Annotated[Path, Option("-o", "--output", help="File to write.")] = Path("assizes.toml"),
    date: options.Day = None,
    model: Annotated[
        str | None, Option(help="Model to write and to check by one call, e.g. openai/gpt-4.1.")
    ] = None,
    api_base: Annotated[str | None, Option(help="Address of the model's own server.")] = None,
    column: options.Columns = None,
    endpoint_url: options.EndpointUrl = None,
    force: Annotated[bool, Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write a commented assizes.toml for the transcripts at hand.

    It reads a sample of them, guesses the columns of a table (CSV, Parquet), and chooses the judges
    that fit. Where nothing can be read it says why, and writes nothing.
    """
    day = date.date() if date else None
    wanted = commands.init.InitOptions(day, model, api_base, column or (), endpoint_url)
    commands.init.write_config(uri, file, force=force, options=wanted)


@app.command()
def run(
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    limit: options.Limit = None,
    baseline: Annotated[
        str | None, Option(help="A run, or latest, latest_passed, previous_version.")
    ] = None,
    run_id: Annotated[str | None, Option(hidden=True, help="Id of the run.")] = None,
    fork: Annotated[
        bool, Option("--fork", hidden=True, help="Begin another run beside --run-id.")
    ] = False,
    date: options.Day = None,
    batch: options.Batch = None,
    refresh: options.Refresh = False,
    replay_only: options.ReplayOnly = False,
    only_errors: Annotated[
        bool, Option("--only-errors", hidden=True, help="As `assizes resume RUN --errors`.")
    ] = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Judge the transcripts once: store the rows, compare with the baseline, write the report."""
    if only_errors:
        # Options that would change the run's stored configuration, by which its cases are judged.
        others = any(option is not None for option in (limit, baseline, date, batch))
        others = others or refresh or replay_only or fork
        run = commands.triggered.errored_run(run_id, others=others)
        resume(run, True, overrides, config, as_json=as_json, verbose=verbose)  # which exits
    settings: dict[str, dict[str, object]] = {  # table -> field -> value; None: not given
        "transcripts": {"limit": limit},
        "comparison": {"baseline": baseline},
        "cache": {"use": commands.run.cache_use(refresh=refresh, replay_only=replay_only)},
        "runner": {"batch": batch},
    }
    read = options.read_config(config, overrides, settings)
    if run_id == "":  # e.g. an unset shell variable
        raise ConfigurationError("--run-id '': give an id, or leave the option out")
    if fork and run_id is None:
        raise ConfigurationError("--fork needs --run-id: the run that another is begun beside")
    day = date.date() if date else None
    wanted = commands.run.RunOptions(read, run_id, day, manner="fork" if fork else "begin")
    raise typer.Exit(commands.run.run_evaluation(wanted, as_json=as_json, verbose=verbose))


@app.command()
def resume(
    run_id: options.RunId,
    errors: Annotated[
        bool, Option("--errors", help="Judge the run's cases with errors anew, as a new run.")
    ] = False,
    overrides: options.Overrides = None,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Go on with a run where it stopped; with --errors judge its cases with errors anew.

    The run goes on with the configuration and the input that it began with. A complete run never
    changes: --errors begins a new run over its cases with errors, and `assizes retry-rejected`
    begins one over the records that could not be read.
    """
    if errors:
        code = commands.triggered.rerun_remaining(
            (run_id, "errored"),
            commands.stores.store_config(config, store),
            overrides or [],
            as_json=as_json,
            verbose=verbose,
        )
        raise typer.Exit(code)
    wanted = commands.run.resume_options(run_id, config, store, overrides or [])
    raise typer.Exit(commands.run.run_evaluation(wanted, as_json=as_json, verbose=verbose))


@app.command("requeue", hidden=True)
@app.command()
def retry_rejected(
    run_id: options.RunId,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only read and count; judge nothing.")
    ] = False,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Read the rejected records of a run again, and judge those that can be read, as a new run.

    The run itself does not change. A record can be read now where its file was mended, or where
    `--set` raises a bound, such as `--set transcripts.max_record_mb=64`.
    """
    code = commands.triggered.rerun_remaining(
        (run_id, "quarantined"),
        commands.stores.store_config(config, store),
        overrides or [],
        as_json=as_json,
        verbose=verbose,
        dry_run=dry_run,
    )
    raise typer.Exit(code)


@app.command()
def plan(
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    limit: options.Limit = None,
    date: options.Day = None,
    batch: options.Batch = None,
    refresh: options.Refresh = False,
    replay_only: options.ReplayOnly = False,
    as_json: options.AsJson = False,
) -> None:
    """Say what a run would ask, cost and how long it would take; it asks and writes nothing."""
    settings: dict[str, dict[str, object]] = {  # table -> field -> value; None: not given
        "transcripts": {"limit": limit},
        "cache": {"use": commands.run.cache_use(refresh=refresh, replay_only=replay_only)},
        "runner": {"batch": batch},
    }
    read = options.read_config(config, overrides, settings)
    commands.plan.plan_and_print(read, date.date() if date else None, as_json=as_json)


@app.command()
def stop(
    run_id: Annotated[
        str | None, Argument(metavar="RUN", help=f"A run: {options.RUN_NAMES}.")
    ] = None,
    every: Annotated[
        bool, Option("--all", help="Stop every run; none begins until --lift.")
    ] = False,
    lift: Annotated[bool, Option("--lift", help="End --all: runs may begin again.")] = False,
    config: options.ConfigFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Stop a run: its processes make no new model call; `assizes resume` goes on later."""
    commands.upkeep.stop_runs(run_id, config, every=every, lift=lift, as_json=as_json)


app.add_typer(compare_cli.app)
app.add_typer(operating_cli.app)
app.add_typer(reading_cli.app)
app.add_typer(store_cli.app)
app.add_typer(causes_cli.causes_app)
app.add_typer(publish_cli.app)
app.add_typer(people_cli.labels_app)
app.add_typer(align_cli.app)
app.add_typer(cascade_cli.app)
app.add_typer(judge_tables_cli.app)
app.add_typer(rubric_cli.app)
app.add_typer(suite_cli.app)


@app.command()
def doctor(
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Check model, key, transcripts, store, cache and Prefect server; say what to do."""
    raise typer.Exit(commands.doctor.check_installation(config, overrides or [], as_json=as_json))


def _internal_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Report what nothing else caught (the `sys.excepthook`): one masked line, no traceback."""
    message = mask(" ".join(f"{kind.__name__}: {error}".split()))
    hint = " (rerun as `assizes --verbose ...` for the traceback)"
    if VERBOSE in sys.argv:
        traceback_text = mask("".join(traceback.format_exception(kind, error, trace)))
        sys.stderr.write(terminal.printable(traceback_text, "\n"))
        hint = ""
    terminal.tell_user(f"internal error: {message}{hint}", error=error)
    raise SystemExit(INTERNAL_ERROR)


@cache
def command_line() -> Any:
    """All commands with their options, as typer makes them from the functions."""
    # The app itself would put an excepthook of its own in the place of ours.
    return typer.main.get_command(app)


def main() -> NoReturn:
    """Run the command line as a process of its own."""
    collect_seldom()
    command_output.guard_output()
    try:
        run_command_line()
    except SystemExit as exited:
        end_process(exited)


def run_command_line() -> NoReturn:
    """Run the command line; every fault is one line on stderr and the exit code of its class."""
    sys.excepthook = _internal_error  # before parsing, in which there may be a defect too
    prepare_process()  # from here on logs hide the secrets of the environment
    terminal.keep_log_printable()
    if VERBOSE not in sys.argv:  # Prefect's log, when it is shown, holds the warnings as well
        terminal.print_warnings()
    try:
        restrict_new_files()
        # Not standalone: typer would print a fault of the command line as four lines.
        code = command_line()(prog_name="assizes", standalone_mode=False)
    except AssizesError as error:
        command = usage.typed_command(sys.argv[1:], command_line())
        terminal.tell_user(usage.error_line(error, command), error=error)
        raise SystemExit(error.exit_code) from None
    except usage.USAGE_ERROR as error:
        raise SystemExit(_usage_error(error)) from None
    if code == INTERRUPTED:  # what typer makes of Ctrl-C
        terminal.tell_user("interrupted; run the same command again to resume")
    raise SystemExit(code)


def _usage_error(error: Any) -> int:
    """Say what is wrong with the command line, or show the help of a group alone; exit code 2."""
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message(), err=True)
    else:
        terminal.tell_user(usage.usage_line(error), error=error)
    return 2


if __name__ == "__main__":
    main()
