from __future__ import annotations

import pytest

from assizes.deployments.cli import command_line
from assizes.deployments.usage import error_line, typed_command
from assizes.judge.errors import (
    AssizesError,
    ConfigurationError,
    Inconclusive,
    ServerGone,
    StoreError,
    UnknownRun,
)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConfigurationError("x is wrong"), "x is wrong; `assizes doctor` checks the configuration"),
        (StoreError("part is gone"), "part is gone; `assizes doctor` checks the store"),
        (UnknownRun("no run 'a'"), "no run 'a'; `assizes runs` lists the runs"),
        (Inconclusive("no data"), "no data; `assizes plan` says what a run would judge"),
        (ServerGone("gone"), "gone; `assizes up` starts a Prefect server"),
        (AssizesError("other"), "other; `assizes doctor` checks what a run needs"),
    ],
)
def test_an_error_that_names_no_way_out_gets_that_of_its_class(error: AssizesError, line: str):
    assert error_line(error) == line


@pytest.mark.parametrize(
    "text",
    [
        "run `assizes up` first",
        "[limits] budget_usd is set",
        "[judge.options.sql]: 'sql' is not chosen",
        "give --from",
        "set OPENAI_API_KEY",
    ],
)
def test_an_error_that_names_a_way_out_stays_as_it_is(text: str):
    assert error_line(ConfigurationError(text)) == text


def test_a_mistake_that_is_in_no_configuration_names_the_help_of_its_command():
    error = ConfigurationError("the query holds DROP")
    assert error_line(error, "sql") == "the query holds DROP; `assizes sql --help` shows its usage"


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("causes codebook latest --to x.toml", "causes codebook"),
        ("--verbose labels --x export latest", "labels export"),
        ("--log-format json store clean", "store clean"),
        ("causes latest", "causes"),
        ("show run", "show"),
        ("", "run"),
    ],
)
def test_the_command_that_was_typed_has_its_group_before_it(typed: str, command: str):
    assert typed_command(typed.split(), command_line()) == command
