"""Who may read what a process of ours writes: its owner alone, unless `ASSIZES_UMASK` says otherwise.

The mode mask of the process does it, so that no file is left out: the libraries' own files, such as
write-ahead logs and the database of a Prefect server, and those of child processes. A program that
calls Assizes as a library keeps its own mask.
"""

from __future__ import annotations

import os
import re
from typing import Final

from assizes.judge.errors import ConfigurationError

UMASK: Final = "ASSIZES_UMASK"
"""The variable with the mode mask of commands and workers, in octal digits."""

OWNER_ONLY: Final = 0o077
"""The mask that makes files 0600 and folders 0700."""

_OCTAL: Final = re.compile(r"(?:0o?)?([0-7]{1,3})")


def restrict_new_files() -> None:
    """Set the mode mask of this process, and so of the child processes that it starts from now on.

    Raises:
        ConfigurationError: `ASSIZES_UMASK` is no mask, or would lock the owner out.
    """
    os.umask(_mask(os.environ.get(UMASK) or f"{OWNER_ONLY:o}"))


def _mask(text: str) -> int:
    match = _OCTAL.fullmatch(text.strip())
    if match is None or int(match[1], 8) & 0o700:
        raise ConfigurationError(
            f"{UMASK}={text!r}: wanted octal digits that leave the owner all rights, such as 077 (only "
            "the owner reads, the default), 007 (the group reads and writes) or 022 (all read)"
        )
    return int(match[1], 8)
