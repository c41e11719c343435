"""The one explicit call that prepares a process for our work.

Commands make it when they start; every flow run and task run makes it before it does anything else.
Importing a module of ours changes nothing in a process: whoever imports a flow to deploy it keeps
their own environment, log records and serializers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from assizes.tasks.runtime.failpoints import arm_from_environment
from assizes.tasks.runtime.log_redaction import install_log_redaction

TELEMETRY_OFF: Final[Mapping[str, str]] = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}
"""Without these settings Prefect and its server report to their makers; a value that the user has
set already is kept."""


def prepare_process() -> None:
    """Switch telemetry off, hide the secrets of the environment in all log lines, arm a failpoint.

    Calling it again is cheap and takes in secrets that have come into the environment since.

    Raises:
        ConfigurationError: when `ASSIZES_FAILPOINT` names no failpoint.
    """
    for name, value in TELEMETRY_OFF.items():
        os.environ.setdefault(name, value)
    install_log_redaction()
    arm_from_environment()
