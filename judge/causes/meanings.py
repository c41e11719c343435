"""What reasons mean, as vectors of a sentence encoder: they also bring together what shares no word.

Reasons of judges all speak of agents that fail, so their vectors all point nearly the same way. What
they have in common is taken away: the mean of the reasons at hand, and of sentences about many other
failures, which stand in for the reasons that a small run does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

SHARE: Final = 0.3
"""The part of a cosine that meanings decide, from 0 to 1; words decide the rest.

It was chosen with the development modes of `make bench-causes`, for the limits that words have.
"""

BACKGROUND: Final = (
    "the answer leaves out the date that was asked for.",
    "the agent repeats the same question again and again.",
    "the booking was changed although nobody wanted it.",
    "the wrong tool was called.",
    "the tool was called with a missing argument.",
    "the reply invents a fact that no document supports.",
    "the customer is told something that contradicts the policy.",
    "the agent gives up too early.",
    "private data of another person is shown.",
    "the reply is written in the wrong language.",
    "the amount was computed incorrectly.",
    "the agent ignores an instruction of the user.",
    "the identity of the caller was not checked.",
    "the style of the reply is too long and hard to read.",
    "the request was handed to a person without need.",
    "the code in the answer does not run.",
    "an error of the server was not reported.",
    "the address was entered incorrectly.",
    "the order was sent to somebody else.",
    "the search returned documents about another subject.",
    "the agent claims to have done what it did not do.",
    "the user is blamed for the mistake.",
    "the conversation ends without a solution.",
    "the units of the numbers are confused.",
)
"""Sentences about failures of many kinds; no failure mode of the benchmark is among them."""


class SentenceEncoder(Protocol):
    """Gives a row of numbers for each text, of length 1; texts that mean the same have near rows."""

    def __call__(self, texts: Sequence[str], /) -> np.ndarray:
        """The rows of some texts, in their order; the same text always has the same row."""
        ...


class Meanings:
    """Vectors of meanings, from an encoder that need not see the same text twice."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder
        self._background = np.asarray(encoder(BACKGROUND), dtype=np.float32)

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """A row of length 1 for each text, without what these texts have in common."""
        if not texts:
            return np.zeros((0, self._background.shape[1]), dtype=np.float32)
        rows: np.ndarray = np.asarray(self._encoder(texts), dtype=np.float32)
        rows = rows - np.concatenate([rows, self._background]).mean(axis=0)
        lengths: np.ndarray = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
        rows /= np.maximum(lengths, 1e-9)
        return rows


def joint_cosines(of_words: np.ndarray, of_meanings: np.ndarray) -> np.ndarray:
    """Cosines of words and meanings together."""
    joint = (1 - SHARE) * of_words
    joint += SHARE * of_meanings  # in place: there are up to 36 million
    return joint
