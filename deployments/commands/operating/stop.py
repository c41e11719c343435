"""`assizes stop`, the kill switch: running processes make no new model call.

Replies to calls that are in flight are still stored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from assizes.deployments.commands.output import print_json, print_line
from assizes.deployments.settings import read_optional_config
from assizes.judge.errors import ConfigurationError
from assizes.tasks.spending.ledger_file import known_runs, lift_stop, write_stop
from assizes.tasks.store.record import full_id

STOP_DELAY_S: Final = 2
"""Seconds within which running processes notice a stop."""


def stop_runs(run: str | None, file: Path | None, *, every: bool, lift: bool, as_json: bool) -> int:
    """Stop one run or all runs, or let runs begin again.

    Args:
        run: the run id, or a unique beginning of it.
        file: configuration file, which names the ledger that the runs share.
        every: stop all runs, also runs that begin later.
        lift: end a stop of all runs.
        as_json: print one JSON document.

    Returns:
        0.

    Raises:
        ConfigurationError: not exactly one of `run`, `every` and `lift` is given, or the ledger
            cannot be written.
        UnknownRun: the ledger knows no such run.
    """
    if sum((run is not None, every, lift)) != 1:
        raise ConfigurationError("stop: give a run id, or --all, or --lift")
    ledger = read_optional_config(file).limits.ledger
    call = f"new call from now on (within {STOP_DELAY_S} s)"
    document: dict[str, object]
    if lift:
        document = {"lifted": lift_stop(ledger)}
        line = "runs may begin again" if document["lifted"] else "nothing was stopped"
    elif run is None:
        write_stop(ledger, None)
        document = {"stopped": "all"}
        line = f"no run makes a {call}, until `assizes stop --lift`"
    else:
        run_id = full_id(run, known_runs(ledger), f"ledger {ledger!r}")
        write_stop(ledger, run_id)
        document = {"stopped": run_id}
        line = f"{run_id} makes no {call}; run it again to go on"
    if as_json:
        print_json(document)
    else:
        print_line(line)
    return 0
