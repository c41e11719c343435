"""Imported by every Python process that has this folder on its path: no address but loopback.

An attempt is written down, for somebody may swallow the error, and refused. It sees what goes by
Python's own sockets, which is all but libraries with sockets in other languages.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from pathlib import Path

LOG = "ASSIZES_TESTS_OUTWARD"
NOWHERE = ".invalid"
"""No such host exists anywhere (RFC 6761); a test asks for one to see what happens."""

_ADDRESS = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1}
_NAME = {"socket.getaddrinfo": 0, "socket.gethostbyname": 0, "socket.gethostbyaddr": 0}


def stays(host: object) -> bool:
    """Whether this is no host of the outside."""
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    own = ("", "localhost", os.uname().nodename)
    if not isinstance(name, str) or name in own or name.endswith(NOWHERE):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def watch(log: Path) -> None:
    """From now on until the end of the process; there is no way to take it back."""

    def seen(event: str, given: tuple[object, ...]) -> None:
        if event in _ADDRESS:
            address = given[_ADDRESS[event]]
            host = address[0] if isinstance(address, tuple) else None
        elif event in _NAME:
            host = given[_NAME[event]]
        else:
            return
        if not stays(host):
            line = f"{os.getpid()} {event} {host!r} {' '.join(sys.argv)[:200]!r}\n"
            file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, line.encode())
            os.close(file)
            raise PermissionError(f"{event} {host!r}: tests stay on this machine")

    sys.addaudithook(seen)


if __name__ == "sitecustomize":
    watch(Path(os.environ.get(LOG, os.devnull)))
