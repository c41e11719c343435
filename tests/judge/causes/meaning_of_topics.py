"""A sentence encoder of a few topics: texts about the same topic have near vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

TOPICS = (
    ("refund", "money", "reimburse", "erstattung", "geld"),
    ("rude", "tone", "impolite", "unhöflich", "insult"),
    ("sum", "prices", "total", "arithmetic"),
)


def encode_topics(texts: Sequence[str], /) -> np.ndarray:
    """A row of length 1 for each text: how many words of each topic it has, and one for the rest."""
    rows = [
        [float(sum(word in text for word in topic)) for topic in TOPICS] + [0.1] for text in texts
    ]
    vectors = np.array(rows, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
