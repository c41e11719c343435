"""The way out that every error names, and one line for a command that was typed wrong."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from typer import BadParameter

from assizes.judge.errors import AssizesError, ConfigurationError

# Typer carries click within itself and exports only this class of click's errors: the class above
# it stands for everything that is wrong with a command line.
USAGE_ERROR: Final[Any] = BadParameter.__mro__[1]

MEANT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("eval", "evaluate", "judge", "start", "test"), "run"),
    **dict.fromkeys(("history", "list", "ls", "status"), "runs"),
    **dict.fromkeys(("check", "validate"), "doctor"),
    **dict.fromkeys(("convert", "load"), "import"),
    **dict.fromkeys(("dashboard", "ui", "view", "web"), "serve"),
    **dict.fromkeys(("config", "new", "setup"), "init"),
    **dict.fromkeys(("cost", "dry-run", "estimate"), "plan"),
    **dict.fromkeys(("query", "select"), "sql"),
    "diff": "compare",
    "server": "up",
}
"""What other tools call a command, and what it is called here."""

STORE_MEANT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("gc", "prune", "vacuum"), "clean"),
    **dict.fromkeys(("delete", "remove", "rm"), "forget"),
    **dict.fromkeys(("merge", "optimize"), "compact"),
    **dict.fromkeys(("fix", "repair"), "rebuild"),
}
"""The same for `assizes store`."""

_ELSEWHERE: Final[Mapping[str, str]] = {
    "--dry-run": "`assizes plan` says what a run would ask and cost",
    "--uri": "[transcripts] uri names the transcripts: --set transcripts.uri=FOLDER",
    "--input": "[transcripts] uri names the transcripts: --set transcripts.uri=FOLDER",
}
"""Options of other tools and other commands, and what does the same here."""


_WAY_OUT: Final = re.compile(r"`[^`]+`|--[a-z]|\[[a-z_]+(\.\w+)*\]|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b")
"""A command, an option, a table of settings or an environment variable."""


_CONFIGURED: Final = frozenset(
    [
        "after-deployment",
        "backfill",
        "calibrate",
        "cascade",
        "deploy",
        "doctor",
        "nightly",
        "plan",
        "resume",
        "run",
        "worker",
    ]
)
"""Commands whose mistakes are mostly in the configuration, which `assizes doctor` checks."""


def error_line(error: AssizesError, command: str = "run") -> str:
    """The message of an error, with what helps in general where it names no way out itself.

    `command` is the one that was typed, without `assizes`.
    """
    message, remedy = str(error), error.remedy
    if remedy == ConfigurationError.remedy and command not in _CONFIGURED:
        remedy = f"`assizes {command} --help` shows its usage"
    return message if _WAY_OUT.search(message) else f"{message}; {remedy}"


def usage_line(error: Any) -> str:
    """One line for an error of click: the command, what is wrong with it, what to do."""
    names = _command_names(error.ctx)
    command = " ".join(["assizes", *names])
    if type(error).__name__ == "NoSuchOption":
        return _unknown_option(error, names)
    message = " ".join(error.format_message().split()).rstrip(".")
    if "No such command" in message:
        return _unknown_command(message, command, error.ctx.command.commands)
    if "unexpected extra argument" in message:
        return _extra_argument(message.rpartition(" (")[2].removesuffix(")"), command)
    if "issing argument" in message:
        written = " ".join([command, *_arguments(error.ctx)])
        return f"`{command}`: {message[:1].lower()}{message[1:]}; write `{written}`{_runs_named(written)}"
    for written, plain in _PLAINER.items():
        message = re.sub(written, plain, message)
    return f"`{command}`: {message[:1].lower()}{message[1:]}; `{command} --help` shows its usage"


_PLAINER: Final[Mapping[str, str]] = {
    "Value error, ": "",
    r"Input should be (.*?)(, unable .*)?$": r"must be \1",
    "does not match the formats '%Y-%m-%d'": "is no day; write it as 2026-11-21",
}
"""Words of the libraries, as regular expressions, and plain words for them."""


def _command_names(context: Any) -> list[str]:
    """The words of a command after `assizes`, however the program itself was called."""
    if context is None:  # for an option without its value click does not say where
        return [word for word in sys.argv[1:2] if not word.startswith("-")]
    names: list[str] = []
    while context.parent is not None:
        names.insert(0, context.info_name)
        context = context.parent
    return names


def _arguments(context: Any) -> list[str]:
    """The arguments of a command that must be given, as its usage names them."""
    arguments = [each for each in context.command.params if each.param_type_name == "argument"]
    return [str(each.metavar or each.name).upper() for each in arguments if each.required]


def _runs_named(written: str) -> str:
    is_of_runs = re.search(r" (RUN|BASELINE|CANDIDATE)\b", written)
    return "; `latest` is the last run, `assizes runs` lists all" if is_of_runs else ""


def typed_command(words: Sequence[str], group: Any) -> str:
    """The command among the words after `assizes`, with its group before it: `causes codebook`.

    `group` holds all commands; without a command among the words, `run` is taken for it.
    """
    names: list[str] = []
    for word in words:
        if (command := _commands_of(group).get(word)) is not None:
            names.append(word)
            group = command
    return " ".join(names) or "run"


def _unknown_command(message: str, command: str, known: Mapping[str, Any]) -> str:
    name = message.partition("'")[2].partition("'")[0]
    near = message.partition("Did you mean ")[2].partition("'")[2].partition("'")[0]
    near = name.lower() if name.lower() in known else near
    words = {"assizes": MEANT, "assizes store": STORE_MEANT}.get(command, {})
    in_groups = [f"{group} {name}" for group in known if name in _commands_of(known[group])]
    meant = words.get(name) or near or (in_groups[0] if len(in_groups) == 1 else "")
    hint = f"did you mean `{command} {meant}`? " if meant else ""
    return f"there is no command {name!r}; {hint}`{command} --help` lists the commands"


def _commands_of(group: Any) -> Mapping[str, Any]:
    commands: Mapping[str, Any] = getattr(group, "commands", {})  # a plain command has none
    return commands


def _unknown_option(error: Any, names: list[str]) -> str:
    option, command = error.option_name, " ".join(["assizes", *names])
    if not names:
        hint = f"options of a command come after it: `assizes run {option} ...`"
        return f"there is no option {option} before a command; {hint}"
    fault = f"`{command}` has no option {option}"
    if option == "--log-format":
        return f"{fault}; it stands before the command: `{_before_command(option, names)}`"
    if option in _ELSEWHERE:
        return f"{fault}; {_ELSEWHERE[option]}"
    if settings := _settings_called(option.removeprefix("--").replace("-", "_")):
        return f"{fault}; it is a setting: {' or '.join(f'--set {each}=...' for each in settings)}"
    if words := [word for word in sys.argv if re.match(rf"{re.escape(option)}[a-z]{{2}}", word)]:
        return f"{fault}; long options have two dashes: -{words[0]}"
    near = " or ".join(sorted(error.possibilities or ()))
    hint = f"did you mean {near}? " if near else ""
    return f"{fault}; {hint}`{command} --help` lists its options"


def _before_command(option: str, names: list[str]) -> str:
    """The typed command with an option of `assizes` itself, which stands after its name, before it."""
    words = sys.argv[1:]
    place = next((at for at, word in enumerate(words) if word.split("=")[0] == option), None)
    if place is None:
        return shlex.join(["assizes", option, "json", *names])
    given, after = words[place], words[place + 1 :]
    value = after[:1] if "=" not in given and after and not after[0].startswith("-") else []
    if "=" not in given and not value:
        return shlex.join(["assizes", option, "json", *words[:place], *after])
    return shlex.join(["assizes", given, *value, *words[:place], *after[len(value) :]])


def _settings_called(field: str) -> list[str]:
    from assizes.deployments.setting_faults import settings  # takes 0.3 s to import

    return [f"{table}.{name}" for table, name in settings() if name == field]


def _extra_argument(value: str, command: str) -> str:
    fault = f"`{command}` takes no argument {value!r}"
    if value.startswith("="):
        return f"{fault}; write --set TABLE.FIELD=VALUE without blanks around the ="
    if value.endswith(".toml"):
        return f"{fault}; a configuration is named with -c: `{command} -c {shlex.quote(value)}`"
    if command in ("assizes run", "assizes plan", "assizes doctor"):
        pair = shlex.quote(f"transcripts.uri={value}")
        return f"{fault}; transcripts are named with --set: `{command} --set {pair}`"
    return f"{fault}; `{command} --help` shows its usage"
