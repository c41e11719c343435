"""Hides the secrets of this process in every log line and in errors."""

from __future__ import annotations

import os
from typing import Final

from assizes.judge.privacy.secret_masking import mask, register_secrets, secrets_in
from assizes.tasks.runtime.log_records import clean_log

_LONGEST_CHAIN: Final = 20
"""Errors looked at in a chain of causes and contexts."""


def install_log_redaction() -> None:
    """Learn the secrets of the environment as it is now, and hide them in every line of every log."""
    register_secrets(secrets_in(os.environ))
    clean_log(mask, mask_error)


def mask_error(error: BaseException) -> None:
    """Hide secrets in the arguments of an error and of the errors that it came from."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending and len(seen) < _LONGEST_CHAIN:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        masked_args = tuple(mask(arg) if isinstance(arg, str) else arg for arg in current.args)
        if masked_args != current.args:
            current.args = masked_args
        pending += [current.__cause__, current.__context__]
