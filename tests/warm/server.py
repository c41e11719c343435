"""The warm interpreter: it forks a child for each command that it is asked for, and tells how each ended."""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

from assizes.deployments import cli
from assizes.tasks.runtime.own_process import end_process
from tests.warm.drawing import start_drawing
from tests.warm.imports import import_libraries

_BYTES = 1 << 20  # of a request, most of it the environment


class Forks:
    """The children that run, each with the socket that waits for its end."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)

    def wait_for_command(self) -> dict[str, Any] | None:
        """In a child: the command that it is to run. `None`: nobody asks for commands any more."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._control:
                    self._tell_end(key)
                    continue
                text, descriptors, *_ = socket.recv_fds(self._control, _BYTES, 4)
                if not text:
                    self._kill_children()
                    return None
                if asked := self._fork(json.loads(text), descriptors):
                    return asked

    def _fork(self, asked: dict[str, Any], descriptors: list[int]) -> dict[str, Any] | None:
        answers = socket.socket(fileno=descriptors[0])
        if pid := os.fork():
            answers.send(str(pid).encode())
            for stream in descriptors[1:]:
                os.close(stream)
            self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, answers))
            return None
        self._close_all()
        answers.close()
        for number, stream in enumerate(descriptors[1:]):
            os.dup2(stream, number)
        for stream in descriptors[1:]:
            os.close(stream)
        return asked

    def _tell_end(self, key: selectors.SelectorKey) -> None:
        pid, answers = key.data
        _, status = os.waitpid(pid, 0)
        self._selector.unregister(key.fd)
        os.close(key.fd)
        with suppress(OSError):  # nobody waits for this command
            answers.send(str(os.waitstatus_to_exitcode(status)).encode())
        answers.close()

    def _kill_children(self) -> None:
        for key in self._keys():
            os.kill(key.data[0], signal.SIGKILL)

    def _close_all(self) -> None:
        for key in self._keys():
            os.close(key.fd)
            key.data[1].close()
        self._selector.close()
        self._control.close()

    def _keys(self) -> list[selectors.SelectorKey]:
        return [key for key in self._selector.get_map().values() if key.data]


def main(descriptor: int) -> None:
    """Serve until the other end is closed; in a child, run its command and end as that does."""
    os.chdir("/")  # a folder without settings of Prefect
    start_drawing()
    import_libraries()
    gc.collect()
    gc.freeze()  # the collector of a child leaves what is here alone, and its pages shared
    asked = Forks(socket.socket(fileno=descriptor)).wait_for_command()
    if asked is None:
        return
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.path[0] = asked["cwd"]
    if asked["new_session"]:
        os.setsid()
    if asked["program"] is None:
        sys.argv = ["assizes", *asked["arguments"]]
        end_process(_exit_of(cli.run_command_line))
    sys.argv = ["-c", *asked["arguments"]]
    end_process(_exit_of(partial(_run_program, asked["program"])))


def _run_program(text: str) -> None:
    """Run a program as `python -c` does."""
    module = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(text, "<string>", "exec"), vars(module))


def _exit_of(run: Callable[[], None]) -> SystemExit | None:
    """Run a command or a program to its end, as Python does; returns how it asked to exit."""
    try:
        run()
    except SystemExit as asked:
        return asked
    except BaseException:  # noqa: BLE001  # as Python does
        try:
            sys.excepthook(*sys.exc_info())
        except SystemExit as asked:
            return asked
        return SystemExit(1)
    return None


if __name__ == "__main__":
    main(int(sys.argv[1]))
