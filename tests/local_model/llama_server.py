"""Runs in the environment of the model: serves one model with llama.cpp's server until it is ended.

`python llama_server.py MODEL_FILE NAME PORT WINDOW THREADS`
"""

from __future__ import annotations

import sys
import threading
from typing import Any


def main() -> None:
    import xllamacpp  # type: ignore[import-not-found, unused-ignore]

    file, name, port, window, threads = sys.argv[1:]
    params: Any = xllamacpp.CommonParams()
    params.model.path = file
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_ctx = int(window)
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.warmup = False
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = int(threads)
        cpu.poll = 0  # threads that wait in a loop for each other would starve on a busy machine
    params.sampling.seed = 7
    _server = xllamacpp.Server(params)  # serves as long as the object lives
    threading.Event().wait()


if __name__ == "__main__":
    main()
