"""The Prefect tasks: each does some I/O around one call into the domain."""

import os
from typing import Final

QUIET: Final = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
"""Environment variables that switch off the telemetry of Prefect and of its server.

A value that the user has set stays."""

for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)
