"""Standard output of a command: its reader may leave, its disk be full, its encoding lack characters."""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import sys
from typing import Final

from assizes.deployments.terminal import tell_user

READER_LEFT: Final = 141
"""Exit code where the reader of the output left (128 + SIGPIPE), as of other tools."""

CANNOT_WRITE: Final = 2
"""Exit code where the output cannot be written for another reason, such as a full disk."""

_ESCAPES: Final = "assizes_escapes"


class CommandOutput(io.TextIOWrapper):
    """A stream that ends the command, by `SystemExit`, where it cannot be written.

    Click would make exit code 1, a failed gate, of a reader that left.
    """

    def write(self, text: str, /) -> int:
        """Write a text, or end the command."""
        try:
            return super().write(text)
        except OSError as error:
            raise self._end(error) from None

    def flush(self) -> None:
        """Write what is held back, or end the command."""
        try:
            super().flush()
        except OSError as error:
            raise self._end(error) from None

    def _end(self, error: OSError) -> SystemExit:
        # What is still held back is flushed when the process ends, which would fail once more.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        if error.errno == errno.EPIPE:
            return SystemExit(READER_LEFT)
        tell_user(f"the output cannot be written: {error.strerror}")
        return SystemExit(CANNOT_WRITE)


def guard_output() -> None:
    """Put a `CommandOutput` in the place of this process's standard output, if that is a stream.

    Characters that its encoding lacks are written as escapes of JSON, so JSON parses the same.
    """
    out = sys.stdout
    if not isinstance(out, io.TextIOWrapper):  # closed before the start
        return
    codecs.register_error(_ESCAPES, _escaped)
    sys.stdout = CommandOutput(
        out.buffer,
        out.encoding,
        _ESCAPES,
        line_buffering=out.line_buffering,
        write_through=out.write_through,
    )


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
