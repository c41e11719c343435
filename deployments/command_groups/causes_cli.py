"""`assizes causes ...`: what the failures of runs have in common."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer import Argument, Option

from assizes.deployments import options
from assizes.deployments.commands import failures
from assizes.judge.errors import ConfigurationError, OverBudget

if TYPE_CHECKING:
    from assizes.judge.causes.edits import CauseEdit, EditKind


_LIKENESS: Final = 0.8
"""How like a command, from 0 to 1, the first word is that was meant as one; names of runs are not."""


class CausesGroup(options.ListingGroup):
    """The group `causes`: `assizes causes RUN` is short for `assizes causes show RUN`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; where the first one is no command, `show` is meant."""
        is_named = (
            not args or args[0] in self.commands or args[0] in self.get_help_option_names(ctx)
        )
        near = [] if is_named else difflib.get_close_matches(args[0], self.commands, 1, _LIKENESS)
        if near:
            ctx.fail(
                f"there is no command {args[0]!r}; did you mean `assizes causes {near[0]}`, or the "
                f"run `assizes causes show {args[0]}`"
            )
        return super().parse_args(ctx, args if is_named else ["show", *args])


causes_app = typer.Typer(
    name="causes",
    cls=CausesGroup,
    help="Causes of failures: what the failures of a run have in common; `causes RUN` shows them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

CAUSE_NAMES = "the id of a cause, the beginning of it, or its name"
Cause = Annotated[str, Argument(metavar="CAUSE", help=f"{CAUSE_NAMES}.".capitalize())]
By = Annotated[str, Option("--by", help="Who decides it.")]
Note = Annotated[str, Option(help="Why.")]


@causes_app.command()
def show(
    run_id: options.RunId,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what the failures of a run have in common, and what is new since the run before it."""
    failures.causes.show_causes(run_id, config, store, as_json=as_json)


@causes_app.command()
def rename(
    run_id: options.RunId,
    cause: Cause,
    name: Annotated[str, Argument(metavar="NAME", help="The new name.")],
    by: By = "",
    note: Note = "",
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Give a cause a name that lasts."""
    edit = _edit(cause, "rename", name, author=by, note=note)
    failures.causes.edit_cause(run_id, edit, config, store, as_json=as_json)


@causes_app.command()
def describe(
    run_id: options.RunId,
    cause: Cause,
    text: Annotated[
        str,
        Argument(metavar="TEXT", help="What goes wrong; an empty text: what a judge said again."),
    ],
    by: By = "",
    note: Note = "",
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the sentence about a cause that is shown in place of a judge's reason."""
    edit = _edit(cause, "describe", text, author=by, note=note)
    failures.causes.edit_cause(run_id, edit, config, store, as_json=as_json)


@causes_app.command()
def merge(
    run_id: options.RunId,
    cause: Cause,
    into: Annotated[str, Argument(metavar="INTO", help=f"The other cause: {CAUSE_NAMES}.")],
    by: By = "",
    note: Note = "",
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Make a cause part of another one: its failures count there, also in later runs."""
    edit = _edit(cause, "merge", into, author=by, note=note)
    failures.causes.edit_cause(run_id, edit, config, store, as_json=as_json)


@causes_app.command()
def split(
    run_id: options.RunId,
    cause: Cause,
    name: Annotated[str, Option(help="Name of the new cause.")],
    case: Annotated[list[str], Option(help="A case of the new cause; may be given again.")],
    by: By = "",
    note: Note = "",
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Make cases of a cause a new cause; later runs tell the two apart."""
    edit = _edit(cause, "split", name, case, author=by, note=note)
    failures.causes.edit_cause(run_id, edit, config, store, as_json=as_json)


@causes_app.command()
def mute(
    run_id: options.RunId,
    cause: Cause,
    by: By = "",
    note: Note = "",
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Keep a cause in the tables, and tell nobody about it."""
    edit = _edit(cause, "mute", author=by, note=note)
    failures.causes.edit_cause(run_id, edit, config, store, as_json=as_json)


@causes_app.command()
def unmute(
    run_id: options.RunId,
    cause: Cause,
    by: By = "",
    note: Note = "",
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Tell people about a cause again."""
    edit = _edit(cause, "unmute", author=by, note=note)
    failures.causes.edit_cause(run_id, edit, config, store, as_json=as_json)


@causes_app.command()
def assign(
    run_id: options.RunId,
    cause: Cause,
    owner: Annotated[str, Argument(metavar="OWNER", help="A person or a team.")],
    by: By = "",
    note: Note = "",
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Say who owns a cause; an empty owner is nobody."""
    edit = _edit(cause, "assign", owner, author=by, note=note)
    failures.causes.edit_cause(run_id, edit, config, store, as_json=as_json)


@causes_app.command()
def undo(
    edit: Annotated[str, Argument(metavar="EDIT", help="Id of an edit, or its beginning.")],
    by: By = "",
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
) -> None:
    """Undo an edit of a cause, as `assizes causes history` lists them."""
    failures.causes.undo_edit(edit, by, config, store)


@causes_app.command()
def history(
    run_id: options.RunId,
    cause: Annotated[
        str | None, Argument(metavar="CAUSE", help=f"Only edits of one: {CAUSE_NAMES}.")
    ] = None,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """List what people decided about the causes that a run knows."""
    failures.causes.show_history(run_id, cause, config, store, as_json=as_json)


@causes_app.command()
def name(
    run_id: options.RunId,
    model: Annotated[str, Option(help="Model that names, e.g. openai/gpt-4.1.")],
    budget_usd: Annotated[float, Option(help="Most US dollars for all asks.")] = 1.0,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Let a model name and describe causes that nobody has named, and merge those that are the same."""
    if not budget_usd >= 0:
        raise ConfigurationError(f"--budget-usd {budget_usd:g}: wanted a number of at least 0")
    if not budget_usd:
        raise OverBudget("--budget-usd 0 pays for no ask; nothing was asked")
    wanted: dict[str, dict[str, object]] = {
        "judge": {"model": model, "panel": [], "repeats": 1, "escalate_to": None},
        "limits": {"budget_usd": budget_usd},
        "store": {"uri": store},
        "transcripts": {"uri": ""},  # none is read
    }
    read = options.read_config(config, overrides, wanted)
    failures.causes.name_and_print(read, run_id, as_json=as_json)


@causes_app.command()
def codebook(
    run_id: options.RunId,
    to: Annotated[Path, Option("--to", help="TOML file of codes; new codes are appended to it.")],
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the causes as failure codes to a file, for people to edit and for judges to use."""
    failures.codebook.write_codebook(run_id, to, config, store, as_json=as_json)


@causes_app.command()
def agreement(
    run_id: options.RunId,
    metric: Annotated[str, Option(help="Metric whose failure codes people gave, too.")],
    labels: Annotated[
        Path | None,
        Argument(
            help="CSV file: case_id, code, perhaps repetition [default: codes given on the pages]."
        ),
    ] = None,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Say how far the failure codes of the judge agree with those that people gave."""
    failures.codebook.print_agreement(run_id, labels, metric, config, store, as_json=as_json)


def _edit(
    cause: str,
    kind: EditKind,
    value: str = "",
    case_ids: Sequence[str] = (),
    *,
    author: str,
    note: str,
) -> CauseEdit:
    """The edit that a command stands for; its module loads tables, which help does not need."""
    from assizes.judge.causes.edits import CauseEdit

    return CauseEdit(cause, kind, value, case_ids, author, note)
