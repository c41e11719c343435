"""Local objects that are counted and not read; why not stands in place of their etag."""

from __future__ import annotations

from typing import Final

from assizes.judge.errors import DataError

LINK: Final = "link"
NAME: Final = "name"
NOT_A_FILE: Final = "not_a_file"
"""The codes of the rejects: a link that leads out of its folder, a name that is no UTF-8, and what is
no regular file."""

CODES: Final = (LINK, NAME, NOT_A_FILE)


def link_error(uri: str) -> DataError:
    """The error for a link to a file outside its folder."""
    return DataError(
        LINK, f"{uri!r} is a link that leads out of its folder; name the file itself, or copy it"
    )


def unread_error(uri: str, etag: str) -> DataError:
    """The error for an object that was listed with one of `CODES` in place of its etag."""
    if etag == LINK:
        return link_error(uri)
    if etag == NAME:
        return DataError(NAME, f"{uri!r} is how a name that is no UTF-8 is shown; rename the file")
    return DataError(
        NOT_A_FILE,
        f"{uri!r} is no regular file: a pipe, socket or device, or a link that leads nowhere",
    )
