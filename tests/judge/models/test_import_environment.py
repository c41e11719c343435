"""Values in the environment that would end litellm's import end nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import logging, os
logging.basicConfig(format="%(message)s")
names = ("LITELLM_LOG", "JITTER", "DEFAULT_MAX_TOKENS")
before = [os.environ.get(name) for name in names]
import assizes.judge.models.litellm_model
assert before == [os.environ.get(name) for name in names]
print("imported")
"""


@pytest.mark.promised
@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"LITELLM_LOG": "", "JITTER": "", "DEFAULT_MAX_TOKENS": " "}, []),
        ({"LITELLM_LOG": "chatty", "JITTER": "some"}, ["LITELLM_LOG: 'chatty'", "JITTER: 'some'"]),
    ],
)
def test_no_value_in_the_environment_ends_the_import_of_litellm(
    variables: dict[str, str], said: list[str]
):
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (result.returncode, result.stdout) == (0, "imported\n"), result.stderr
    ignored = [line for line in result.stderr.splitlines() if " is ignored" in line]
    assert ignored == [f"{each} is ignored, litellm cannot read it" for each in said]
