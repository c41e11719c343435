"""What a run imports late or makes once, done by the server that forks the children: a second of CPU for each."""

from __future__ import annotations

import importlib

from tests.warm.imports import make_lasting

for library in ("altair", "vl_convert"):
    importlib.import_module(library)
make_lasting()
