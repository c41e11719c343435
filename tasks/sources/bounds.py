"""How much of an object is let onto the local disk and into memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from assizes.judge.config.run import TranscriptsConfig

_MB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ObjectBounds:
    """What is let onto the local disk and into memory.

    Attributes:
        object_bytes: the most that one object may be once unpacked.
        document_bytes: the most of an object that is parsed as a whole.
        salvage: keep the whole lines in front of the place where a gzip object breaks.
    """

    object_bytes: int = 16_384 * _MB
    document_bytes: int = 40 * _MB
    salvage: bool = False

    @classmethod
    def of(cls, config: TranscriptsConfig) -> ObjectBounds:
        """As configured."""
        return cls(
            round(config.max_object_mb * _MB), round(config.max_document_mb * _MB), config.salvage
        )


def max_record_bytes(config: TranscriptsConfig) -> int:
    """The most that one record may be."""
    return round(config.max_record_mb * _MB)
