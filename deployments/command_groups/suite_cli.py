"""`assizes promote` and `assizes suite ...`: suites of cases that failed once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from assizes.deployments import options

app = typer.Typer()
suite_app = typer.Typer(
    name="suite",
    cls=options.ListingGroup,
    help="Suites of cases that failed once: how they stand, and which cases retire.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(suite_app)

SuiteFolder = Annotated[
    Path | None,
    Argument(metavar="SUITE", help="Folder of the suite [default: that of the configuration]."),
]
Passes = Annotated[int, Option(min=1, help="Passes in a row after which a case can be retired.")]


@app.command()
def promote(
    run_id: options.RunId,
    to: Annotated[
        str,
        Option(
            metavar="SUITE",
            parser=options.named_place,
            help="Folder of the suite; it may be new.",
        ),
    ],
    failed: Annotated[bool, Option("--failed", help="Every case that failed.")] = False,
    cause: Annotated[
        list[str] | None,
        Option(help="The cases of a cause: its id, the beginning of it, or its name; repeatable."),
    ] = None,
    case: Annotated[list[str] | None, Option(help="The case of this id; repeatable.")] = None,
    promoted_by: Annotated[
        str | None, Option("--by", help="Who promotes [default: the user of this machine].")
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only say what would be added; write nothing.")
    ] = False,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Write cases of a run into a suite, so that later runs over the suite guard against them.

    The conversations are read again from where the run read them. Secrets are hidden, and so is
    what the run hides. A conversation that the suite has already is not added again.
    """
    from assizes.deployments.commands.suites.promote import PromoteOptions, promote_and_print
    from assizes.tasks.suites.promotion import CaseChoice

    choice = CaseChoice(failed, tuple(cause or ()), tuple(case or ()))
    wanted = PromoteOptions(run_id, choice, to, promoted_by, dry_run)
    promote_and_print(wanted, config, store, as_json=as_json)


@suite_app.command()
def status(
    suite: SuiteFolder = None,
    passes: Passes = 10,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Show how a suite stands: its causes, who passes, what came back, which cases can be retired."""
    from assizes.deployments.commands.suites.status import print_status

    print_status(suite, config, store, passes, as_json=as_json)


@suite_app.command()
def retire(
    suite: SuiteFolder = None,
    case: Annotated[list[str] | None, Option(help="The case of this id; repeatable.")] = None,
    retirable: Annotated[
        bool, Option("--retirable", help="Every case that passed often enough in a row.")
    ] = False,
    passes: Passes = 10,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Retire cases of a suite: their lines are kept in another file, which runs do not read."""
    from assizes.deployments.commands.suites.status import retire_and_print

    wanted = passes if retirable else None
    retire_and_print(suite, case or (), config, store, wanted, as_json=as_json)
