"""The pytest plugin: conversations of an agent judged in tests.

    def test_refund(judge):
        judge(conversation).passes(metric="task_completion")

pytest finds it by itself where assizes is installed. Nothing of assizes is imported before a test
asks for the fixture `judge`, or a marker names a suite. docs/how-to/pytest.md describes it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from assizes.deployments.testing.judged import JudgeFixture
    from assizes.deployments.testing.session import Session
    from assizes.deployments.testing.sharing import JudgingServer

__all__ = ["judge"]

_SESSION: pytest.StashKey[Session] = pytest.StashKey()
_SERVER: pytest.StashKey[JudgingServer] = pytest.StashKey()
_LOCK = threading.Lock()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and settings of the plugin."""
    group = parser.getgroup("assizes", "conversations judged in tests")
    group.addoption(
        "--assizes-config",
        metavar="FILE",
        help="configuration of the judges (default: assizes.toml at the root, if it is there)",
    )
    group.addoption(
        "--assizes-budget-usd",
        metavar="USD",
        type=float,
        help="dollars for all model calls of this session; tests after that fail",
    )
    parser.addini("assizes_config", "configuration of the judges", default="")
    parser.addini("assizes_name", "name of the runs of sessions", default="pytest")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    line = "assizes(suite, repeats, at_least): cases of a suite, and how many repeats must pass"
    config.addinivalue_line("markers", line)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise `case` over the suite that a marker names."""
    if metafunc.definition.get_closest_marker("assizes") is not None:
        from assizes.deployments.testing.session import suite_cases

        suite_cases(metafunc)


@pytest.fixture
def judge(request: pytest.FixtureRequest) -> JudgeFixture:
    """Judges conversations: `judge(case).passes(metric=...)`, `judge(case).records(metric=...)`."""
    return _session(request.config).fixture(request)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process of pytest-xdist where its cases are judged."""
    stash = node.config.stash
    if _SERVER not in stash:
        from assizes.deployments.testing.sharing import JudgingServer

        stash[_SERVER] = JudgingServer(lambda question: _session(node.config).answer(question))
    server = stash[_SERVER]
    node.workerinput["assizes"] = {"address": server.address, "key": server.key}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Store what was judged as one run."""
    if (server := session.config.stash.get(_SERVER, None)) is not None:
        server.close()
    if (own := session.config.stash.get(_SESSION, None)) is not None:
        own.finish()
        if not own.stored and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say which run holds the session."""
    own = config.stash.get(_SESSION, None)
    for line in own.lines if own is not None else ():
        terminalreporter.write_line(f"assizes: {line}")


def _session(config: pytest.Config) -> Session:
    from assizes.deployments.testing.session import Session

    with _LOCK:  # processes of pytest-xdist are answered in threads
        return config.stash.setdefault(_SESSION, Session(config))
