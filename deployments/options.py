"""What the commands share: options and arguments, and the listing of `assizes --help`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Argument, BadParameter, Context, Option
from typer.core import TyperGroup

from assizes.judge.errors import AssizesError

if TYPE_CHECKING:
    from assizes.judge.config.run import RunConfig

ConfigFile = Annotated[
    Path | None, Option("-c", "--config", help="Configuration file [default: assizes.toml].")
]
Overrides = Annotated[
    list[str] | None, Option("--set", help="Override a setting: table.field=value; repeatable.")
]
StoreUri = Annotated[
    str | None,
    Option("--store", help="Store to read: a .duckdb file, a folder, a URI [default: configured]."),
]
AsJson = Annotated[bool, Option("--json", help="Print one JSON document on stdout.")]
Verbose = Annotated[
    bool, Option("--verbose", help="Show Prefect's log and the traceback of a defect.")
]
Columns = Annotated[
    list[str] | None,
    Option("--column", help="What a column of a table holds, e.g. id=ticket; repeatable."),
]
Yes = Annotated[bool, Option("--yes", help="Do it; without this, only say what would be done.")]
MAX_NUMBER: Final = 1_000_000_000
"""The largest number that an option takes; none needs more, and what counts with them has bounds."""


def check_number(context: Context, parameter: Any, value: Any) -> Any:
    """Refuse a number that cannot be counted with; other values are as good as they are.

    Raises:
        BadParameter: the number is NaN, infinite, or beyond `MAX_NUMBER` on either side of 0.
    """
    # A comparison with NaN is false, whichever way it is written.
    if isinstance(value, int | float) and not -MAX_NUMBER <= value <= MAX_NUMBER:
        wanted = f"a number between -{MAX_NUMBER:,} and {MAX_NUMBER:,}"
        raise BadParameter(f"must be {wanted} (given {value})", ctx=context, param=parameter)
    return value


def named_place(text: str) -> str:
    """A path or a URI as it was typed, where an empty one would mean the working folder.

    Raises:
        BadParameter: the text is empty, e.g. that of an unset shell variable.
    """
    if not text.strip():
        raise BadParameter("an empty path names nothing; `.` is the working folder")
    return text


def _endpoint(text: str) -> str:
    from assizes.judge.config import ENDPOINT_FORM, is_endpoint, s3_host_fault

    if not is_endpoint(text):
        raise BadParameter(f"must be {ENDPOINT_FORM} (given {text!r})")
    if fault := s3_host_fault(text):
        raise BadParameter(fault)
    return text


EndpointUrl = Annotated[
    str | None,
    Option(metavar="<str>", parser=_endpoint, help="Endpoint of an S3 store other than AWS."),
]


def named_folder(text: str | Path) -> Path:
    """The same as a path; a default is one already."""
    return text if isinstance(text, Path) else Path(named_place(text))


RUN_NAMES: Final = "latest, NAME, NAME@2026-11-20, NAME~1 (the one before), or an id, shortened"


def complete_run(context: Context, incomplete: str) -> list[str]:
    """The names of runs that a shell offers where a run is asked for; none without a store."""
    from assizes.deployments.commands.stores import opened_store
    from assizes.tasks.store.run_names import LATEST

    try:
        with opened_store(context.params.get("config"), context.params.get("store")) as store:
            runs = store.run_index()
    except AssizesError:
        return []
    names = dict.fromkeys((LATEST, *runs["name"], *runs["run_id"]))  # each once, in this order
    return [name for name in names if name.startswith(incomplete)]


def _run_argument(metavar: str, text: str) -> Any:
    return Argument(metavar=metavar, help=text, autocompletion=complete_run)


RunId = Annotated[str, _run_argument("RUN", f"A run: {RUN_NAMES}.")]
Baseline = Annotated[str, _run_argument("BASELINE", f"The run before: {RUN_NAMES}.")]
Candidate = Annotated[str, _run_argument("CANDIDATE", "The run that may be worse, named likewise.")]
CaseId = Annotated[str, Argument(metavar="CASE", help="Id of a case; reports and rows name it.")]
Repetition = Annotated[
    int | None, Option(help="Which repetition of the case, where it was judged more than once.")
]
Limit = Annotated[int | None, Option(help="Judge at most so many cases.")]
Day = Annotated[  # typer parses no date; commands take `.date()` of it
    datetime | None, Option(formats=["%Y-%m-%d"], help="Day for date placeholders in the URI.")
]
Batch = Annotated[
    bool | None, Option("--batch/--no-batch", help="Use the provider's batch API, at half price.")
]
Refresh = Annotated[
    bool, Option("--refresh", help="Ask the model again, also where the cache has a reply.")
]
ReplayOnly = Annotated[
    bool,
    Option(
        "--replay-only", help="Use only replies in the cache; this needs no key and no network."
    ),
]


def read_config(
    file: Path | None,
    overrides: list[str] | None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> RunConfig:
    """Read a configuration as `settings.read_config` does, whose module takes 0.3 s to import."""
    from assizes.deployments import settings

    return settings.read_config(file, overrides or (), options)


SECTIONS: Final[Mapping[str, Sequence[str]]] = {  # heading -> commands, in this order
    "Begin": ("demo", "init", "doctor", "plan"),
    "Judge": (
        *("run", "ci", "resume", "retry-rejected"),
        *("nightly", "after-deployment", "backfill", "stop"),
    ),
    "Read": (
        *("runs", "show", "case", "explain", "causes show", "rejects"),
        *(
            "compare",
            "rank",
            "trends",
            "report",
            "results",
            "export",
            "serve",
            "mcp",
            "sql",
            "export-metrics",
        ),
    ),
    "Judges and transcripts": (
        *("metrics", "judges", "rubric test", "calibrate", "cascade", "judge-tables"),
        "import",
    ),
    "Scores elsewhere": ("publish",),
    "Labels of people": (
        *("labels queue", "labels status", "labels list", "labels import", "labels export"),
        "labels pull",
        "align",
    ),
    "Causes of failures": (
        *("causes name", "causes rename", "causes describe", "causes merge", "causes split"),
        *("causes assign", "causes mute", "causes unmute", "causes history", "causes undo"),
        *("causes codebook", "causes agreement"),
    ),
    "Suites": ("promote", "suite status", "suite retire"),
    "Prefect server": ("up", "down", "deploy", "worker"),
    "Upkeep of a store": ("store compact", "store clean", "store forget", "store rebuild"),
    "Help": ("help", "json-schema"),
}
OTHERS: Final = "Others"  # heading of the commands that no section names


def visible_commands(group: TyperGroup, prefix: str = "") -> dict[str, Any]:
    """The commands that are not hidden, by name; a command of an inner group as `store clean`."""
    commands: dict[str, Any] = {}
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            commands |= visible_commands(command, f"{prefix}{name} ")
        elif not command.hidden:
            commands[f"{prefix}{name}"] = command
    return commands


class ListingGroup(TyperGroup):
    """A command group that lists its commands, each with the first paragraph of its help, uncut.

    It checks the numbers of every option of its commands.
    """

    def __init__(self, **attrs: Any) -> None:
        """Make the group as typer does, of the commands in `attrs`."""
        super().__init__(**attrs)
        for command in self.commands.values():
            parameters: Sequence[Any] = command.params
            for parameter in parameters:
                parameter.callback = parameter.callback or check_number

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the listing; hidden commands, which are old names, are not in it."""
        commands = visible_commands(self)
        for title, names in self.sections().items():
            texts = [(commands[name].help or "").strip() for name in names]
            lines = [text.partition("\n\n")[0].replace("\n", " ") for text in texts]
            with formatter.section(title):
                formatter.write_dl(list(zip(names, lines, strict=True)))

    def sections(self) -> dict[str, list[str]]:
        """Names of the commands, by heading."""
        return {"Commands": list(visible_commands(self))}


class SectionedGroup(ListingGroup):
    """The group of all commands: it lists them under the headings of `SECTIONS`."""

    def sections(self) -> dict[str, list[str]]:
        """Names of the commands, by heading; a heading without commands is left out."""
        commands = visible_commands(self)
        listed = {name for names in SECTIONS.values() for name in names}
        known = {
            title: [command for command in names if command in commands]
            for title, names in SECTIONS.items()
        }
        known[OTHERS] = [name for name in commands if name not in listed]
        return {title: names for title, names in known.items() if names}
