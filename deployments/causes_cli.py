"""`assizes causes ...`: what the failures of runs have in common."""

from __future__ import annotations

from typing import Any

import typer

from assizes.deployments import options
from assizes.deployments.commands.failures import causes as commands


class CausesGroup(options.ListingGroup):
    """The group `causes`: `assizes causes RUN` is short for `assizes causes show RUN`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; where the first one is no command, `show` is meant."""
        is_named = (
            not args or args[0] in self.commands or args[0] in self.get_help_option_names(ctx)
        )
        return super().parse_args(ctx, args if is_named else ["show", *args])


causes_app = typer.Typer(
    name="causes",
    cls=CausesGroup,
    help="Causes of failures: what the failures of a run have in common; `causes RUN` shows them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@causes_app.command()
def show(
    run_id: options.RunId,
    config: options.ConfigFile = None,
    store: options.StoreUri = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what the failures of a run have in common, and what is new since the run before it."""
    commands.show_causes(run_id, config, store, as_json=as_json)
