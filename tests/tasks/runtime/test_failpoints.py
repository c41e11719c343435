"""Every failpoint: die there, go on, and the rows are those of a run that nothing happened to."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assizes.judge.errors import ConfigurationError
from assizes.tasks.runtime import failpoints
from assizes.tasks.runtime.failpoints import DECLARED, PUBLISHING, FailpointHit, arm, failpoint
from tests.outward import PYTHONPATH
from tests.soak.failpoint_runs import Scenarios

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory, s3) -> Scenarios:
    return Scenarios(tmp_path_factory.mktemp("failpoints"), s3)


@pytest.fixture
def disarmed() -> Iterator[None]:
    yield
    arm(None)


@pytest.mark.parametrize("name", DECLARED)
def test_who_dies_there_loses_nothing_and_does_nothing_twice(scenarios, name):
    assert scenarios.suffered(name) == []


def test_every_declared_failpoint_is_in_the_code_and_no_other_is():
    files = [path for path in (ROOT / "tasks").rglob("*.py") if path.name != "failpoints.py"]
    named = [
        n for path in files for n in re.findall(r'failpoint\(\s*"([^"]+)"', path.read_text("utf-8"))
    ]
    assert set(named) == {*DECLARED, *PUBLISHING}
    assert len(DECLARED) >= 40


def test_a_failpoint_raises_at_the_time_that_was_asked_for(disarmed):
    arm("plan.begun:2:raise")
    failpoint("plan.begun")
    failpoint("plan.listed")
    with pytest.raises(FailpointHit, match="failpoint plan.begun"):
        failpoint("plan.begun")
    failpoint("plan.begun")


@pytest.mark.promised
@pytest.mark.parametrize(
    ("wanted", "code"),
    [("plan.begun", -9), ("plan.begun:1:kill", -9), ("plan.begun:1:exit", 86), ("plan.begun:2", 0)],
)
def test_the_environment_arms_a_process(wanted, code):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from assizes.tasks.runtime.failpoints import failpoint\n"
            "from assizes.tasks.runtime.process import prepare_process\n"
            "prepare_process(); failpoint('plan.begun')",
        ],
        cwd=ROOT,
        env={"ASSIZES_FAILPOINT": wanted, "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        check=False,
    )
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("nowhere", "unknown failpoint 'nowhere'; known: "),
        ("plan.begun:x", "'plan.begun:x'; accepted: name:nth or name:nth:kill|raise|exit"),
        ("plan.begun:1:explode", "accepted: name:nth or name:nth:kill|raise|exit"),
    ],
)
def test_one_that_is_not_there_is_refused(wanted, told, disarmed):
    with pytest.raises(ConfigurationError) as caught:
        arm(wanted)
    assert told in str(caught.value)


def test_unset_it_is_nothing(disarmed):
    assert failpoints._armed is None
    failpoint("plan.begun")
