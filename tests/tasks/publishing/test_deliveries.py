"""The outbox: what was sent elsewhere is noted in order, kept by hash, and held by one process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreBusy, StoreError
from assizes.judge.rows import as_json
from assizes.tasks.publishing.deliveries import DeliveryLog, delivery_log
from assizes.tasks.store.bucket import objects_at

RUN = "nightly-aaaaaaaaaaaa"


def row(name: str, state: str, remote_id: str = "", case_id: str = "c1") -> dict[str, Any]:
    return {
        "delivery_id": f"{case_id}/{name}",
        "case_id": case_id,
        "repetition": 0,
        "destination": "langfuse at http://x",
        "kind": "score",
        "name": name,
        "target": "{}",
        "content_hash": "h",
        "state": state,
        "remote_id": remote_id,
        "detail": "",
    }


@pytest.fixture(params=["file", "folder", "bucket"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> StoreConfig:
    if request.param == "bucket":
        s3 = request.getfixturevalue("s3")
        return StoreConfig(uri=f"s3://{s3.bucket()}/lake", storage_options=s3.storage_options)
    uri = f"duckdb:///{tmp_path}/a.duckdb" if request.param == "file" else f"{tmp_path}/lake"
    return StoreConfig(uri=uri)


def test_the_last_state_counts_and_an_id_that_was_given_stays(config: StoreConfig):
    log = delivery_log(config)
    assert log.states(RUN) == {}
    log.add(RUN, [row("a", "sending"), row("b", "sending")])
    log.add(RUN, [row("a", "sent", "r1"), row("b", "refused")])
    log.add(RUN, [row("a", "sending")])
    states = delivery_log(config).states(RUN)
    assert states["c1/a"][:3] == ("h", "sending", "r1")
    assert states["c1/b"][:3] == ("h", "refused", "")
    assert log.rows(RUN).height == 5
    assert log.run_ids() == [RUN]


def test_forgotten_deliveries_are_in_no_byte_of_it(config: StoreConfig):
    log = delivery_log(config)
    log.add(RUN, [row("a", "sent"), row("a", "sent", case_id="c2")])
    log.add(RUN, [row("b", "sent", case_id="c2")])
    log.forget(RUN, {"c2/a", "c2/b"})
    assert set(log.rows(RUN)["case_id"]) == {"c1"}


def test_only_one_process_publishes_a_run(config: StoreConfig):
    first, second = delivery_log(config), delivery_log(config)
    with first.locked(RUN):
        with pytest.raises(StoreBusy, match="another process is publishing"), second.locked(RUN):
            pass
        with second.locked("another-run"):
            pass
    with second.locked(RUN):
        pass


def test_a_lease_that_a_killed_process_left_in_a_bucket_expires(s3):
    config = StoreConfig(uri=f"s3://{s3.bucket()}/lake", storage_options=s3.storage_options)
    objects, log = objects_at(config.uri, config.storage_options), delivery_log(config)
    name = f"deliveries/{RUN}/lease"
    now = datetime.now(UTC)
    objects.create(name, as_json({"until": (now + timedelta(minutes=1)).isoformat()}).encode())
    with pytest.raises(StoreBusy), log.locked(RUN):
        pass
    objects.remove([name])
    objects.create(name, as_json({"until": (now - timedelta(minutes=1)).isoformat()}).encode())
    with log.locked(RUN) as renew:
        taken = objects.read([name])
        renew()
        assert objects.read([name]) != taken
        assert objects.names(f"deliveries/{RUN}") == ["lease"]
    assert objects.names(f"deliveries/{RUN}") == []


def test_a_flipped_byte_is_named_and_a_store_in_memory_keeps_nothing(tmp_path: Path):
    config = StoreConfig(uri=f"{tmp_path}/lake")
    delivery_log(config).add(RUN, [row("a", "sent")])
    (file,) = (tmp_path / "lake" / "deliveries" / RUN).glob("*.lines")
    file.write_bytes(file.read_bytes().replace(b'"sent"', b'"semt"'))
    with pytest.raises(StoreError, match="its hash differs"):
        delivery_log(config).states(RUN)
    with pytest.raises(StoreError, match="keeps no deliveries"):
        delivery_log(StoreConfig(uri="duckdb:///:memory:"))


def test_a_clock_that_stands_still_leaves_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log: DeliveryLog = delivery_log(StoreConfig(uri=f"{tmp_path}/lake"))
    log.add(RUN, [row("a", "sending")])
    monkeypatch.setattr(log, "_last", datetime.now(UTC) + timedelta(hours=1))  # set back since
    log.add(RUN, [row("a", "sent")])
    log.add(RUN, [row("a", "withdrawn")])
    assert log.states(RUN)["c1/a"].state == "withdrawn"
