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
class StoredDocument:
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
        self._lasting: dict[str, StoredDocument] = {}

    def read_content(self, name: str) -> Mapping[str, Any] | None:
        """A document, or null where it is not there."""
        document = self.read_documents([name]).get(name)
        return None if document is None else document.content

    def read_documents(self, names: Iterable[str]) -> dict[str, StoredDocument]:
        """Those that are there, in the order given.

        Raises:
            SchemaVersion: when one was written by another version.
            StoreError: when one is no JSON.
        """
        return {
            name: self._checked_document(name, data)
            for name, data in self._objects.read(list(names)).items()
        }

    def read_lasting(self, names: Iterable[str]) -> dict[str, StoredDocument]:
        """The same, for documents that are created once."""
        all_names = list(names)
        self._lasting.update(
            self.read_documents(name for name in all_names if name not in self._lasting)
        )
        return {name: self._lasting[name] for name in all_names if name in self._lasting}

    def read_folder(self, folder: str) -> dict[str, StoredDocument]:
        """All lasting documents directly below a folder, as it is listed now, by object name."""
        return self.read_lasting(f"{folder}/{name}" for name in self._objects.names(folder))

    def _checked_document(self, name: str, data: bytes) -> StoredDocument:
        content = parse_document(self._objects.where, name, data)
        version = content.get("schema_version")
        if version != SCHEMA_VERSION:
            raise SchemaVersion.mismatch(self._uri, version, SCHEMA_VERSION)
        return StoredDocument(content, hashlib.sha256(data).hexdigest())


def parse_document(where: str, name: str, data: bytes) -> dict[str, Any]:
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


def encode_document(**content: Any) -> bytes:
    """A document as it is written: canonical, so the same content gives the same bytes."""
    return as_json({"schema_version": SCHEMA_VERSION, **content}).encode()
