"""How to repeat a run: its configuration as a TOML file, and the commands."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

from assizes.judge.config.run import RunConfig
from assizes.tasks.reports.schema.report import Reproduce

_BARE_KEY: Final = re.compile(r"^[A-Za-z0-9_-]+$")


def reproduction(run_id: str, config: Mapping[str, Any]) -> Reproduce:
    """The configuration file and the commands that give the same rows again."""
    run = shlex.quote(run_id)
    return Reproduce(
        toml=config_toml(config),
        commands=[
            "assizes run -c assizes.toml",
            f"assizes show {run}",
            f"assizes report {run}",
        ],
    )


def config_toml(config: Mapping[str, Any]) -> str:
    """A snapshot of a configuration as TOML, without keys that are not settings.

    Loading the text gives the same configuration. Values of `None` are left out, as TOML has none.
    """
    known = {name: config[name] for name in RunConfig.model_fields if name in config}
    plain = {name: value for name, value in known.items() if not isinstance(value, Mapping)}
    tables = {name: value for name, value in known.items() if isinstance(value, Mapping)}
    lines = [_pair(name, value) for name, value in plain.items() if value is not None]
    for name, table in tables.items():
        pairs = [_pair(key, value) for key, value in table.items() if value is not None]
        if pairs:
            lines += ["", f"[{name}]", *pairs]
    return "\n".join(lines) + "\n"


def _pair(name: str, value: Any) -> str:
    return f"{name if _BARE_KEY.match(name) else _text(name)} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = [_pair(key, item) for key, item in value.items() if item is not None]
        return "{ " + ", ".join(pairs) + " }" if pairs else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value, allow_nan=False)


def _text(value: str) -> str:
    # A JSON string is a TOML string but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
