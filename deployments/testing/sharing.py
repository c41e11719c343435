"""The connection by which the processes of pytest-xdist have their cases judged in one process.

This module imports nothing of assizes but its errors: it is loaded in every session with `-n`, also
where no test judges anything.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, Final

MAX_MESSAGE_BYTES: Final = 64 << 20
"""The largest case or verdict that passes between two processes, in bytes."""


class JudgingServer:
    """Answers other processes of this user, each over a connection of its own.

    `answer` turns the bytes of a question into those of its answer; it is called in many threads.
    """

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer
        self.key = secrets.token_bytes(32)  # who does not know it is not served
        self._listener = Listener(authkey=self.key, backlog=64)  # in a folder for this user alone
        threading.Thread(target=self._accept, name="assizes-accept", daemon=True).start()

    @property
    def address(self) -> Any:
        """Where the server is reached."""
        return self._listener.address

    def close(self) -> None:
        """Serve nobody any more."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except AuthenticationError:
                continue
            except (OSError, EOFError):  # closed
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        # Bytes, which are never unpickled: an object that is could be code.
        with connection, suppress(EOFError, OSError):
            while True:
                connection.send_bytes(self._answer(connection.recv_bytes(MAX_MESSAGE_BYTES)))


class JudgingConnection:
    """Asks a `JudgingServer`; every thread has a connection of its own."""

    def __init__(self, address: Any, key: bytes) -> None:
        self._address, self._key = address, key
        self._own = threading.local()

    def ask(self, question: bytes) -> bytes:
        """The answer to a question.

        Raises:
            OSError: the server does not answer.
        """
        try:
            if not hasattr(self._own, "connection"):
                self._own.connection = Client(self._address, authkey=self._key)
            self._own.connection.send_bytes(question)
            return bytes(self._own.connection.recv_bytes(MAX_MESSAGE_BYTES))
        except (EOFError, AuthenticationError) as error:
            raise OSError(type(error).__name__) from None
