"""`assizes help`: the help of a command, and the words of the product's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer import Context
from typer.core import TyperGroup

from assizes.deployments.commands.output import print_text
from assizes.deployments.words import words_page, words_text
from assizes.judge.errors import ConfigurationError


def print_help(
    command: Any,  # `assizes` itself, as `typer.Context` has it
    program: str | None,  # as it was called
    topic: Sequence[str],
    *,
    markdown: bool = False,
) -> None:
    """Print the page of words, or the help of a command; without a topic that of all commands.

    `topic` is `words`, or the words of a command's name.

    Raises:
        ConfigurationError: there is no such command.
    """
    if list(topic) == ["words"]:
        print_text((words_page() if markdown else words_text()).rstrip("\n"))
        return
    context = Context(command, info_name=program, **command.context_settings)
    for name in topic:
        command = command.get_command(context, name) if isinstance(command, TyperGroup) else None
        if command is None:
            raise ConfigurationError(
                f"help: no command {' '.join(topic)!r}; give `words` or a command that "
                "`assizes --help` lists"
            )
        context = Context(command, info_name=name, parent=context)
    print_text(context.get_help())
