"""Keys of providers that are set and empty, as a CI job sets a secret that nobody gave a value."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_empty_keys() -> Iterator[None]:
    """Leave empty keys out of the environment for a while, since they are as good as missing."""
    empty = {
        name: value
        for name, value in os.environ.items()
        if name.endswith("_API_KEY") and not value.strip()
    }
    for name in empty:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(empty)
