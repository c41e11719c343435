"""How many values a test over drawn values takes: a part of them in each run, all in `make fuzz`."""

from __future__ import annotations

import os

from hypothesis import settings

FUZZ = bool(os.environ.get("ASSIZES_FUZZ"))
PART = 3
LEAST = 10


def examples(count: int) -> settings:
    """Settings of a costly test: `count` values in `make fuzz`, a third of them, always the same, elsewhere.

    What is drawn is the same in every run but those of `make fuzz`, so that more of it shows nothing new the second
    time.
    """
    return settings(max_examples=count if FUZZ else max(LEAST, count // PART))
