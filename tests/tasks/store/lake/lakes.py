"""Access to the objects of a lake without its store."""

from __future__ import annotations

from pathlib import Path

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import Store
from tests.tasks.store.rows import COUNTS, ended, run_metrics, run_record, shard


class Place:
    """Reads, writes and deletes the objects of a lake in a folder or a bucket."""

    def __init__(self, config: StoreConfig, client) -> None:
        self._config, self._client = config, client
        self._s3 = config.uri.startswith("s3://")
        if self._s3:
            self._bucket, self._prefix = config.uri.removeprefix("s3://").split("/")

    def objects(self) -> dict[str, bytes]:
        if not self._s3:
            root = Path(self._config.uri)
            files = sorted(path for path in root.rglob("*") if path.is_file())
            return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
        listed = self._client.list_objects_v2(Bucket=self._bucket).get("Contents", [])
        names = sorted(entry["Key"].removeprefix(f"{self._prefix}/") for entry in listed)
        return {name: self._client.get_object(**self._at(name))["Body"].read() for name in names}

    def put(self, name: str, data: bytes) -> None:
        if self._s3:
            self._client.put_object(**self._at(name), Body=data)
        else:
            Path(self._config.uri, name).write_bytes(data)

    def delete(self, name: str) -> None:
        if self._s3:
            self._client.delete_object(**self._at(name))
        else:
            Path(self._config.uri, name).unlink()

    def _at(self, name: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": f"{self._prefix}/{name}"}


def _fill(store: Store) -> None:
    begun = store.begin(run_record())
    store.commit_shard("nightly-1", "s0", shard(), COUNTS)
    store.finish(ended(begun), run_metrics())
