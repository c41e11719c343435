"""The JSON documents of a lake: each written whole, each of this schema version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from assizes.judge.errors import SchemaVersion, StoreError
from assizes.judge.rows import SCHEMA_VERSION, as_json
from assizes.tasks.store.objects.protocol import Objects


@dataclass(frozen=True, slots=True)
class Document:
    """What a document says, and the SHA-256 of its bytes."""

    content: Mapping[str, Any]
    sha256: str


class Documents:
    """Reads the documents of one lake.

    Those read as `lasting` are created once and never change, so they are read once.
    """

    def __init__(self, uri: str, objects: Objects) -> None:
        self._uri = uri
        self._objects = objects
        self._lasting: dict[str, Document] = {}

    def one(self, name: str) -> Mapping[str, Any] | None:
        """A document, or null where it is not there."""
        found = self.several([name]).get(name)
        return None if found is None else found.content

    def several(self, names: Iterable[str]) -> dict[str, Document]:
        """Those that are there, in the order given.

        Raises:
            SchemaVersion: when one was written by another version.
            StoreError: when one is no JSON.
        """
        return {
            name: self._checked(name, data)
            for name, data in self._objects.read(list(names)).items()
        }

    def lasting(self, names: Iterable[str]) -> dict[str, Document]:
        """The same, for documents that are created once."""
        wanted = list(names)
        self._lasting.update(self.several(name for name in wanted if name not in self._lasting))
        return {name: self._lasting[name] for name in wanted if name in self._lasting}

    def below(self, folder: str) -> dict[str, Document]:
        """All lasting documents directly below a folder, as it is listed now, by object name."""
        return self.lasting(f"{folder}/{name}" for name in self._objects.names(folder))

    def _checked(self, name: str, data: bytes) -> Document:
        content = parsed(self._objects.where, name, data)
        version = content.get("schema_version")
        if version != SCHEMA_VERSION:
            raise SchemaVersion.mismatch(self._uri, version, SCHEMA_VERSION)
        return Document(content, hashlib.sha256(data).hexdigest())


def parsed(where: str, name: str, data: bytes) -> dict[str, Any]:
    """The JSON of an object.

    Raises:
        StoreError: when it is none.
    """
    try:
        document = json.loads(data)
    except ValueError as error:
        raise StoreError(f"{where}: {name} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise StoreError(f"{where}: {name} is not a JSON object")
    return document


def encoded(**content: Any) -> bytes:
    """A document as it is written: canonical, so the same content gives the same bytes."""
    return as_json({"schema_version": SCHEMA_VERSION, **content}).encode()
