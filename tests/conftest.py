"""Shared fixtures: where the data of others lies, a real Prefect server, and what tests may not do."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import certifi
import pytest
from hypothesis import HealthCheck, settings

from assizes.judge.privacy import secret_masking
from tests import prefect_home, warm
from tests.guardian import VARIABLE, watch_over
from tests.outward import attempts, watch
from tests.tiers import shares_setup, tier_of

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("ASSIZES_DATA", ROOT.parent / "shared" / "data"))

# Before Prefect is first imported: its database, its settings and our server state stay out of
# the home of whoever runs the tests.
_SCRATCH = Path(tempfile.mkdtemp(prefix="assizes-tests-"))
os.environ[VARIABLE] = str(_SCRATCH)
# Inherited, and so the folder of the process that gives out the tests (tests/grouping.py).
os.environ.setdefault("ASSIZES_TESTS_GROUPS", str(_SCRATCH))
_GUARDIAN = watch_over(_SCRATCH)  # removes the folder, and ends our server, if we are killed
os.environ["PREFECT_HOME"] = f"{_SCRATCH}/prefect"
os.environ["ASSIZES_HOME"] = f"{_SCRATCH}/assizes"
os.environ.pop("PREFECT_API_URL", None)
OUTWARD = Path(os.environ.get("ASSIZES_TESTS_OUTWARD", f"{_SCRATCH}/outward.log"))
watch(OUTWARD)
os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "CRITICAL"
os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
os.environ["DO_NOT_TRACK"] = "1"
# No test reads the task runs that a server keeps: keeping them takes it a sixth of its CPU.
os.environ["PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_ENABLED"] = "false"
# What a server does by itself, only the tests of tests/server wait for. To look every few seconds whether there is
# something to do takes each server a thirtieth of a core, from its start to its end.
if "ASSIZES_SERVER_TESTS" not in os.environ:
    for loop in ("SCHEDULER", "LATE_RUNS", "FOREMAN", "CANCELLATION_CLEANUP", "PAUSE_EXPIRATIONS"):
        os.environ[f"PREFECT_SERVER_SERVICES_{loop}_ENABLED"] = "false"
    os.environ["PREFECT_SERVER_EVENTS_PROACTIVE_GRANULARITY"] = (
        "PT1M"  # of triggers by time, not by event
    )
# No test speaks TLS. Reading the certificates that the world trusts costs each client 20 ms of CPU, and
# each flow run makes half a dozen clients: here they trust one.
_CERTIFICATE = _SCRATCH / "certificate.pem"
_END = "-----END CERTIFICATE-----"
_CERTIFICATE.write_text(Path(certifi.where()).read_text().partition(_END)[0] + _END)
os.environ["SSL_CERT_FILE"] = os.environ["PREFECT_API_SSL_CERT_FILE"] = str(_CERTIFICATE)
warm.remember_environment()

# A busy machine, or one that measures coverage, is no fault of what is tested. What Hypothesis draws is the
# same in each run, so that no run is red by chance; `make fuzz` draws anew and prints its seed.
_SPEED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same-examples", derandomize=True, **_SPEED)
settings.register_profile("new-examples", print_blob=True, **_SPEED)
settings.load_profile("new-examples" if os.environ.get("ASSIZES_FUZZ") else "same-examples")

# Minutes long, with workers and schedules: `make test-server`.
_NEEDED = {"server": "ASSIZES_SERVER_TESTS", "integrations": "ASSIZES_INTEGRATIONS"}
collect_ignore = [name for name, variable in _NEEDED.items() if not os.environ.get(variable)]

SELDOM = (10_000, 20, 20)
"""When the garbage collector looks for cycles: with Python's own thresholds it takes a twentieth of the CPU."""

gc.disable()  # until the tests are found: most of what their modules make is kept
pytest_plugins = ["tests.doubles.fixtures", "tests.doubles.s3", "tests.grouping"]


def _stop_server() -> None:
    if "assizes.deployments.server" in sys.modules:  # else nobody has started one
        from assizes.deployments.server import stop_server

        stop_server()
    assert _GUARDIAN.stdin is not None
    _GUARDIAN.stdin.close()
    _GUARDIAN.wait(30)


# Registered before Prefect registers its own: it sends its last events first, then the server ends.
atexit.register(_stop_server)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """No test may pass over an attempt to reach the outside that somebody swallowed."""
    gc.unfreeze()  # libraries count at the end what was not collected
    if "PYTEST_XDIST_WORKER" not in os.environ and (tried := attempts(OUTWARD)):
        sys.stderr.write("\nattempts to reach the outside:\n" + "\n".join(tried) + "\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def _secrets_of_one_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test has the process hide, the next may show: a key of the stubs is in many of both."""
    monkeypatch.setattr(
        secret_masking._ProcessSecrets, "values", secret_masking._ProcessSecrets.values
    )


@pytest.fixture(scope="session")
def outward_log() -> Path:
    """Where attempts to reach the outside are counted."""
    return OUTWARD


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses among the tiers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a file that need the Prefect server, or share what is set up for the file, run in
    one process: it is set up once. Each process starts a server of its own.
    """
    for item in items:
        item.add_marker(getattr(pytest.mark, tier_of(item)))
        needs_server = "prefect_server" in getattr(item, "fixturenames", ())
        if needs_server:
            item.add_marker(pytest.mark.server)
        if needs_server or (shares_setup(item) and not item.get_closest_marker("xdist_group")):
            file = item.nodeid.partition("::")[0]
            shares_pages = "served" in getattr(item, "fixturenames", ())
            item.add_marker(pytest.mark.xdist_group("web" if shares_pages else file))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What is there before the first test stays until the end: the garbage collector passes it by."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(*SELDOM)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of data sets made by others; skips where it is absent, unless that is forbidden."""
    if not (DATA / "README.md").exists():
        reason = f"no data sets at {DATA} (set ASSIZES_DATA)"
        if os.environ.get("ASSIZES_REQUIRE_DATA"):
            pytest.fail(reason)
        pytest.skip(reason)
    return DATA


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[str]:
    """The API address of a real Prefect server, started as `assizes up` starts it."""
    from prefect.settings import (
        PREFECT_API_URL,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        temporary_settings,
    )

    from assizes.deployments.server import start_server

    with prefect_home.filled(Path(os.environ["PREFECT_HOME"])):
        server = start_server()
    settings = {PREFECT_API_URL: server.api_url, PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
    with temporary_settings(settings):
        yield server.api_url
