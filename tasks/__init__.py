"""Prefect tasks: one I/O act around one domain call each."""

import os
from typing import Final

QUIET: Final = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
"""Without these Prefect and its server report to their makers; who sets them otherwise is heeded."""

for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)
