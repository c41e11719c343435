"""A session of pytest: its settings, its run, and how it tells of both."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from assizes.deployments.settings import DEFAULT_FILE, read_optional_config, validate_config
from assizes.deployments.testing.judged import JudgeFixture, TestDefaults
from assizes.deployments.testing.judging import Judging, JudgingThread, RemoteJudging, answered
from assizes.deployments.testing.sharing import JudgingConnection
from assizes.judge.catalog import CONVERSATION, available_metrics
from assizes.judge.errors import AssizesError, ConfigurationError
from assizes.tasks.suites.suite_folder import read_suite

NAME: Final = "pytest"
"""The name of the runs of sessions, unless `assizes_name` says otherwise."""

MARKER: Final = "assizes"
_MARKED: Final = ("suite", "repeats", "at_least")


class Session:
    """What the plugin keeps of a session; in a process of pytest-xdist it is a connection only."""

    def __init__(self, config: pytest.Config) -> None:
        self.lines: list[str] = []  # for the end of the session
        self.stored = True  # whether the run could be stored
        self._config = config
        self._lock = threading.Lock()
        self._thread: JudgingThread | None = None
        self._judging: Judging | None = None

    def judging(self) -> Judging:
        """Who judges in this process; called in any thread.

        Raises:
            AssizesError: the configuration cannot work.
        """
        with self._lock:
            if self._judging is None:
                address = getattr(self._config, "workerinput", {}).get("assizes")
                if address is None:
                    self._judging = self._thread = self._own_thread()
                else:
                    connection = JudgingConnection(address["address"], address["key"])
                    self._judging = RemoteJudging(connection)
            return self._judging

    def answer(self, question: bytes) -> bytes:
        """The answer to a question of another process of this session."""
        return answered(self.judging(), question)

    def fixture(self, request: pytest.FixtureRequest) -> JudgeFixture:
        """The fixture `judge` of a test."""
        item = request.node

        def record(name: str, value: object) -> None:
            item.user_properties.append((name, value))

        try:
            return JudgeFixture(self.judging(), record, _defaults(item))
        except AssizesError as error:
            fault = str(error)
        pytest.fail(f"assizes: {fault}", pytrace=False)

    def finish(self) -> None:
        """Store the run; in a process of pytest-xdist there is none."""
        if self._thread is None:
            return
        run_id, store = self._thread.run_id, self._thread.config.store.uri
        try:
            outcome = self._thread.finish()
        except AssizesError as error:
            self.stored = False
            self.lines.append(f"run {run_id} could not be stored: {error}")
            return
        if outcome is not None:
            cases = outcome.summary.counts["judged"] + outcome.summary.counts["errored"]
            cost = outcome.summary.spent_usd
            paid = "" if cost is None else f", {cost:.4f} USD"
            self.lines.append(f"run {run_id} in {store}: {cases} cases{paid}")
            if outcome.conclusion in {"OverBudget", "Halted"}:
                self.lines.append(f"{outcome.reasons[0]}; tests after that were not judged")

    def _own_thread(self) -> JudgingThread:
        from assizes.deployments.library.evaluate import KEPT_INPUTS
        from assizes.flows.live_run import live_config  # imports Prefect: seconds

        pytest_config = self._config
        file = pytest_config.getoption("assizes_config") or pytest_config.getini("assizes_config")
        path = pytest_config.rootpath / (file or DEFAULT_FILE)
        read = read_optional_config(path if file or path.exists() else None)
        body: dict[str, Any] = {**read.model_dump(), "name": pytest_config.getini("assizes_name")}
        if (budget := pytest_config.getoption("assizes_budget_usd")) is not None:
            body["limits"] = {**body["limits"], "budget_usd": budget}
        if CONVERSATION in read.judge.judges and not read.judge.metrics:
            body["judge"] = {**body["judge"], "metrics": _all_metrics(read.judge.rubrics)}
        config = validate_config(body, "pytest")
        if config.runner.kind != "local" or config.runner.batch:
            raise ConfigurationError("[runner]: tests judge in their own process; leave it out")
        run_id = f"{config.name}-{secrets.token_hex(6)}"
        return JudgingThread(live_config(config, KEPT_INPUTS / run_id), run_id)


def _all_metrics(rubrics: Sequence[str]) -> list[dict[str, Any]]:
    """Every conversation metric, as a test may ask for any; those without a weight decide no case."""
    return [
        {
            "metric": metric.name,
            "weight": metric.default_weight if metric.include_in_defaults else 0.0,
        }
        for metric in available_metrics(rubrics)
    ]


def suite_cases(metafunc: pytest.Metafunc) -> None:
    """Give a test that asks for `case` the cases of the suite that its marker names."""
    marker = metafunc.definition.get_closest_marker(MARKER)
    if marker is None or "suite" not in marker.kwargs or "case" not in metafunc.fixturenames:
        return
    folder = metafunc.config.rootpath / Path(marker.kwargs["suite"])
    try:
        cases = read_suite(folder).cases
    except AssizesError as error:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: {error}") from None
    metafunc.parametrize("case", cases, ids=[case.case_id for case in cases])


def _defaults(item: pytest.Item) -> TestDefaults:
    """What the marker of a test sets.

    Raises:
        ConfigurationError: the marker has another argument.
    """
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return TestDefaults(item.nodeid)
    if marker.args or (unknown := marker.kwargs.keys() - set(_MARKED)):
        name = "an argument without a name" if marker.args else sorted(unknown)[0]
        raise ConfigurationError(
            f"marker {MARKER}: {name} is not known; accepted: {', '.join(_MARKED)}"
        )
    settings = {name: marker.kwargs[name] for name in marker.kwargs if name != "suite"}
    return TestDefaults(item.nodeid, **settings)
