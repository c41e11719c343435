"""`assizes stop`: the kill switch. Running processes make no new call; what is in flight is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from assizes.deployments.commands.output import print_json, print_line
from assizes.deployments.settings import read_optional_config
from assizes.judge.errors import ConfigurationError
from assizes.tasks.spending.ledger_file import known_runs, lift_stop, write_stop
from assizes.tasks.store.record import full_id

STOP_DELAY_S: Final = 2
"""Running processes see a stop within so many seconds."""


def stop_runs(run: str | None, file: Path | None, *, every: bool, lift: bool, as_json: bool) -> int:
    """Stop one run or all, or let runs begin again.

    Args:
        run: a run id, or the beginning of one.
        file: the configuration whose ledger the runs share.
        every: stop all runs, also those that begin later.
        lift: take that back.
        as_json: print one JSON document.

    Raises:
        ConfigurationError: when it is not said what to do, or the ledger cannot be written.
        UnknownRun: the ledger knows no such run.
    """
    if sum((run is not None, every, lift)) != 1:
        raise ConfigurationError("stop: give a run id, or --all, or --lift")
    ledger = read_optional_config(file).limits.ledger
    if lift:
        lifted = lift_stop(ledger)
        line = "runs may begin again" if lifted else "nothing was stopped"
        _print_answer({"lifted": lifted}, line, as_json=as_json)
        return 0
    if run is None:
        write_stop(ledger, None)
        line = f"no run makes a new call from now on (within {STOP_DELAY_S} s), until `assizes stop --lift`"
        _print_answer({"stopped": "all"}, line, as_json=as_json)
        return 0
    stopped = full_id(run, known_runs(ledger), f"ledger {ledger!r}")
    write_stop(ledger, stopped)
    line = (
        f"{stopped} makes no new call from now on (within {STOP_DELAY_S} s); run it again to go on"
    )
    _print_answer({"stopped": stopped}, line, as_json=as_json)
    return 0


def _print_answer(document: dict[str, object], line: str, *, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        print_line(line)
