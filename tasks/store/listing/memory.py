"""Files of a store that is in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final


class MemoryFiles:
    """Files of a store that is in memory; they end with it."""

    where: Final = "memory"

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The bytes of the named files that there are, by name."""
        return {name: self._files[name] for name in names if name in self._files}

    def names(self, folder: str) -> list[str]:
        """Last parts of the names in a folder, sorted."""
        start = f"{folder}/"
        return sorted(name.removeprefix(start) for name in self._files if name.startswith(start))

    def replace(self, name: str, data: bytes) -> None:
        """Keep a file, in place of the one of that name."""
        self._files[name] = data
