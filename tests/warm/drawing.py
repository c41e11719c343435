"""Draws the charts of forked commands: the JavaScript of vl_convert starts in 0.4 s of CPU, and cannot be forked.

It runs in a process of its own, which ends with the warm interpreter. Where that does not answer, a command draws
its charts itself.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import vl_convert

from tests.guardian import VARIABLE

_LOOKS_S = 0.5  # between two looks at whether the warm interpreter is there
_FIRST: dict[str, Any] = {"data": {"values": [{"n": 1}]}, "mark": "bar", "encoding": {}}


def start_drawing() -> None:
    """Start the process, and have this interpreter and its forks ask it for drawings."""
    place = Path(os.environ[VARIABLE], f"drawing-{os.getpid()}")
    subprocess.Popen(
        [sys.executable, "-m", "tests.warm.drawing", str(place), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    vl_convert.vegalite_to_svg = _asking(place, vl_convert.vegalite_to_svg)


def _asking(place: Path, draw: Callable[..., str]) -> Callable[..., str]:
    """The function that draws, or that raises what the library raised."""

    def vegalite_to_svg(specification: dict[str, Any], **options: Any) -> str:
        with socket.socket(socket.AF_UNIX) as asked:
            try:
                asked.connect(str(place))
            except OSError:
                return draw(specification, **options)
            asked.sendall(f"{json.dumps([specification, options])}\n".encode())
            with asked.makefile("rb") as answered:
                svg, refusal = json.load(answered)
        if refusal is not None:
            raise ValueError(refusal)
        return str(svg)

    return vegalite_to_svg


class _Drawing(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Answer with the drawing, or with why there is none."""
        specification, options = json.loads(self.rfile.readline())
        try:
            answer = [vl_convert.vegalite_to_svg(specification, **options), None]
        except ValueError as error:
            answer = [None, str(error)]
        self.wfile.write(json.dumps(answer).encode())


def main(place: str, interpreter: int) -> None:
    """Draw until the warm interpreter has ended."""
    vl_convert.vegalite_to_svg(_FIRST)
    with socketserver.ThreadingUnixStreamServer(place, _Drawing) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        while os.getppid() == interpreter:
            time.sleep(_LOOKS_S)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
