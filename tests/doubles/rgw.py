"""A server of the S3 protocol that is nobody's imitation: Ceph's gateway, from Debian's packages.

One monitor, one OSD that keeps its objects in memory, one gateway, all on loopback, below one
scratch folder. Needs the packages radosgw, ceph-mon and ceph-osd; no configuration of the machine.
"""

from __future__ import annotations

import shutil
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

PACKAGES: Final = "radosgw, ceph-mon and ceph-osd"
_PROGRAMS: Final = (
    *("ceph", "ceph-authtool", "ceph-conf", "ceph-mon", "ceph-osd"),
    *("monmaptool", "radosgw", "radosgw-admin"),
)
_START_S: Final = 120

_CONFIG: Final = """
[global]
fsid = {fsid}
mon host = 127.0.0.1:{mon}
mon initial members = a
public addr = 127.0.0.1
cluster addr = 127.0.0.1
run dir = {folder}
admin socket = {folder}/$name.asok
log file = {folder}/$name.log
keyring = {folder}/keyring
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
mon data = {folder}/mon
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = 4294967296
osd crush chooseleaf type = 0
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
mon allow pool size one = true
mon max pg per osd = 500
mon data avail crit = 1
mon data avail warn = 1
rgw frontends = beast endpoint=127.0.0.1:{gateway}
"""
_WHO: Final = {
    "mon.": ("mon", "allow *"),
    "client.admin": ("mon", "allow *", "osd", "allow *", "mgr", "allow *"),
    "osd.0": ("mon", "allow profile osd", "osd", "allow *"),
    "client.gateway": ("mon", "allow rwx", "osd", "allow rwx"),
}


def missing() -> list[str]:
    """Programs that are not there."""
    return [name for name in _PROGRAMS if shutil.which(name) is None]


@contextmanager
def running_gateway(folder: Path, ports: tuple[int, int], keys: tuple[str, str]) -> Iterator[str]:
    """The gateway's address, while it runs.

    Args:
        folder: an empty one; nothing is kept elsewhere.
        ports: of the monitor and of the gateway.
        keys: access key and secret of its one user.
    """
    mon, gateway = ports
    config = folder / "ceph.conf"
    config.write_text(
        _CONFIG.format(fsid=uuid.uuid4(), mon=mon, gateway=gateway, folder=folder), "utf-8"
    )
    with ExitStack() as running:
        _begin_monitor(folder, mon, running)
        _begin_osd(folder, running)
        running.enter_context(_daemon(folder, "radosgw", "-n", "client.gateway"))
        endpoint = f"http://127.0.0.1:{gateway}"
        _wait_until_up(endpoint)
        user = ["user", "create", "--uid=tester", "--display-name=tester"]
        _do(folder, "radosgw-admin", *user, f"--access-key={keys[0]}", f"--secret-key={keys[1]}")
        yield endpoint


def _begin_monitor(folder: Path, port: int, running: ExitStack) -> None:
    keyring, monmap = folder / "keyring", folder / "monmap"
    for name, caps in _WHO.items():
        pairs = [part for at in range(0, len(caps), 2) for part in ("--cap", *caps[at : at + 2])]
        create = [] if keyring.exists() else ["--create-keyring"]
        _run("ceph-authtool", *create, str(keyring), "--gen-key", "-n", name, *pairs)
    fsid = _asked(folder, "ceph-conf", "--lookup", "fsid").strip()
    made = ["--create", "--fsid", fsid, "--addv", "a", f"[v1:127.0.0.1:{port}]", str(monmap)]
    _run("monmaptool", *made)
    (folder / "mon").mkdir()
    _do(folder, "ceph-mon", "--mkfs", "-i", "a", "--monmap", str(monmap))
    running.enter_context(_daemon(folder, "ceph-mon", "-i", "a"))


def _begin_osd(folder: Path, running: ExitStack) -> None:
    identity = str(uuid.uuid4())
    (folder / "osd").mkdir()
    _do(folder, "ceph", "osd", "new", identity)
    _do(folder, "ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", identity)
    running.enter_context(_daemon(folder, "ceph-osd", "-i", "0"))


@contextmanager
def _daemon(folder: Path, name: str, *arguments: str) -> Iterator[None]:
    command = [name, "-c", str(folder / "ceph.conf"), *arguments, "-f"]
    with (folder / f"{name}.out").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            yield
        finally:
            process.kill()
            process.wait(20)


def _do(folder: Path, name: str, *arguments: str) -> None:
    _asked(folder, name, *arguments)


def _asked(folder: Path, name: str, *arguments: str) -> str:
    return _run(name, "-c", str(folder / "ceph.conf"), *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_START_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-500:]}")
    return done.stdout


def _wait_until_up(endpoint: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        try:
            with opener.open(endpoint, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    raise RuntimeError(f"no gateway at {endpoint} after {_START_S} s")
