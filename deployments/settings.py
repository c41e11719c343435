"""The settings of a run: the configuration file, and the environment, which is read here.

Four layers, each over the one before: file, `ASSIZES_*` variables, `--set` pairs, named options.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from assizes.deployments.setting_faults import (
    Setting,
    fault_text,
    missing_file_text,
    misspelt_variable,
)
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.runtime.process import TELEMETRY_OFF

DEFAULT_FILE = Path("assizes.toml")  # in the working directory
PREFIX = "ASSIZES_"  # ASSIZES_JUDGE__MODEL is the field `model` of the table `judge`
API_TOKEN = f"{PREFIX}API_TOKEN"  # name of the variable that holds it
MAX_FILE_BYTES = 1 << 20  # 1 MiB
"""Largest configuration file in bytes; files that people write are far smaller."""

NOTHING: Final[Mapping[Setting, str]] = MappingProxyType({})
"""No setting comes from elsewhere."""

WORKER_ENVIRONMENT: Final[Mapping[str, str]] = {
    **TELEMETRY_OFF,
    # `assizes deploy` has the server close runs that are silent for three of these.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",  # seconds
    "PREFECT_LOGGING_EXTRA_LOGGERS": "assizes.judge,assizes.tasks,assizes.flows",  # sent to server
}
"""Environment of each flow run that a worker begins; keys and addresses come from the worker."""

PREFECT_DEFAULTS: Final[Mapping[str, str]] = {
    **WORKER_ENVIRONMENT,
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",  # a command without a server starts its own
    # The temporary server needs 12 to 20 s on two cores; Prefect's own limit is 20.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_CLI_COLORS": "false",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",  # lines of a command outside its flows
}
"""Variables that are set before Prefect is first imported, unless the environment has them."""


def api_token() -> str | None:
    """The token that callers of the HTTP API must send (`ASSIZES_API_TOKEN`); `None`: no token."""
    return os.environ.get(API_TOKEN) or None


def prepare_environment(*, verbose: bool = False, api_url: str | None = None) -> None:
    """Make Prefect quiet (unless `verbose`) and private; called before Prefect is imported."""
    for name, value in PREFECT_DEFAULTS.items():
        os.environ.setdefault(name, value)  # what the user has set stays
    if prefect_home := os.environ.get("PREFECT_HOME"):
        # Prefect makes this folder but not its parents, and then waits in vain for its database.
        Path(prefect_home).mkdir(parents=True, exist_ok=True)
    level = "INFO" if verbose else "CRITICAL"
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", level)
    if api_url:  # else Prefect reads environment and profile itself
        os.environ["PREFECT_API_URL"] = api_url
    if os.environ.get("LITELLM_LOG", "").upper() == "DEBUG":
        sys.stderr.write("assizes: LITELLM_LOG=DEBUG: the log holds the text of transcripts\n")


def configured_api_url() -> str | None:
    """The address of the Prefect API that the user set, in the environment or the active profile.

    Raises:
        ConfigurationError: the file of profiles cannot be read.
    """
    if url := os.environ.get("PREFECT_API_URL"):
        return url
    # Found as Prefect finds it, without the time that importing Prefect takes.
    prefect_home = Path(os.environ.get("PREFECT_HOME", Path.home() / ".prefect"))
    profiles = Path(os.environ.get("PREFECT_PROFILES_PATH", prefect_home / "profiles.toml"))
    if not profiles.exists():
        return None
    known = _read_toml(profiles)
    active = os.environ.get("PREFECT_PROFILE", known.get("active", ""))
    try:
        url = known.get("profiles", {}).get(active, {}).get("PREFECT_API_URL")
    except (AttributeError, TypeError):  # a value where a table is expected
        hint = "`prefect profile inspect` shows more"
        raise ConfigurationError(
            f"{profiles}: no profiles as Prefect writes them; {hint}"
        ) from None
    return str(url) if url else None


def read_config(
    path: Path | None,  # None: `DEFAULT_FILE`, where it exists
    overrides: Sequence[str] = (),  # "table.field=value"; what is no TOML value is a string
    options: Mapping[str, Mapping[str, Any]] | None = None,  # table -> field; None: not given
) -> RunConfig:
    """Read the configuration of a run: file, then `ASSIZES_*` variables, `--set` pairs, options.

    Raises:
        ConfigurationError: naming file, table and field, and what would be accepted.
    """
    body, where, given_by = _layers(path)
    try:
        return _override_config(body, where, overrides, options or {}, given_by)
    except ConfigurationError:
        placed = "transcripts" in body or "uri" in (options or {}).get("transcripts", {})
        if path is None and not DEFAULT_FILE.exists() and not placed:
            raise ConfigurationError(missing_file_text(Path.cwd())) from None
        raise


def stored_config(
    snapshot: Mapping[str, Any],  # may hold fields that `RunConfig` no longer has
    options: Mapping[str, Mapping[str, Any]],  # table -> field -> value; None is a value
    overrides: Sequence[str],
    where: str,  # name of the configuration in error messages
) -> RunConfig:
    """A stored configuration with settings, then `--set` pairs over it; raises as `read_config`."""
    frozen = {name: snapshot[name] for name in RunConfig.model_fields if name in snapshot}
    return _override_config(_merge_tables(frozen, options), where, overrides, {})


def read_optional_config(path: Path | None) -> RunConfig:
    """Read a configuration that may lack file and transcripts; raises as `read_config`."""
    body, where, given_by = _layers(path)
    return validate_config(_merge_tables({"transcripts": {"uri": ""}}, body), where, given_by)


def validate_config(
    body: Mapping[str, Any],
    where: str,  # name of the configuration in error messages
    given_by: Mapping[Setting, str] = NOTHING,  # where settings come from that are not from there
) -> RunConfig:
    """Make a configuration from plain tables.

    Raises:
        ConfigurationError: one line, after the name `where`, with every fault and what is accepted.
    """
    try:
        return RunConfig.model_validate(body)
    except ValidationError as error:
        raise ConfigurationError(fault_text(error, where, given_by)) from None


def _override_config(
    body: dict[str, Any],
    where: str,
    overrides: Sequence[str],
    options: Mapping[str, Mapping[str, Any]],
    given_by: Mapping[Setting, str] = NOTHING,
) -> RunConfig:
    texts: dict[Setting, str] = {}  # the text of each setting's last pair
    for pair in overrides:
        name, separator, text = pair.partition("=")  # the value may hold a "="
        if not separator or not name.strip():
            raise ConfigurationError(
                f"--set {pair!r}: write TABLE.FIELD=VALUE, e.g. --set judge.model=openai/gpt-4.1"
            )
        field = tuple(name.strip().split("."))
        _set_value(body, field, _toml_value(text), f"--set {pair}")
        texts[field] = text
    try:
        RunConfig.model_validate(body)
    except ValidationError as error:
        # `--set comparison.baseline=2026-11-20` parses as a TOML date; the user means the text.
        faults = [fault["loc"] for fault in error.errors() if fault["type"] == "string_type"]
        for field in [field for field in texts if field in faults]:
            _set_value(body, field, texts[field], f"--set {'.'.join(field)}")
    places = dict(given_by) | {field: f"--set {'.'.join(field)}" for field in texts}
    for table, fields in options.items():
        values = {name: value for name, value in fields.items() if value is not None}
        body = _merge_tables(body, {table: values} if values else {})
        places |= {(table, name): _option_name(name) for name in values}
    return validate_config(body, where, places)


def _option_name(field: str) -> str:
    """The named option that gives a setting."""
    return f"--{_OPTIONS.get(field, field).replace('_', '-')}"


_OPTIONS: Final = {"uri": "store", "columns": "column", "words": "word", "slices": "slice"}
"""Settings whose options have other names."""


def _layers(path: Path | None) -> tuple[dict[str, Any], str, dict[Setting, str]]:
    """The file with the environment over it, the file's name, and what the environment gave."""
    file = path or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    body = _read_toml(file) if file else {}
    if (fault := misspelt_variable(_own_variables(), PREFIX)) is not None:
        raise ConfigurationError(f"environment: {fault}")
    given_by = {
        tuple(name.removeprefix(PREFIX).lower().split("__")): f"environment: {name}"
        for name in _own_variables()
        if "__" in name
    }
    where = str(file) if file else "configuration"
    return _merge_tables(body, _environment_layer()), where, given_by


def _own_variables() -> list[str]:
    return [name for name in os.environ if name.startswith(PREFIX)]


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigurationError(
                f"{path}: over {MAX_FILE_BYTES:,} bytes, which is no configuration; name one with "
                "-c FILE"
            )
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path}: no such file; `assizes init FOLDER -o {path}` writes one for the transcripts in "
            "a folder"
        ) from None
    except IsADirectoryError:
        raise ConfigurationError(
            f"{path}: a folder; -c takes a file, `assizes init {path}` writes one for transcripts in it"
        ) from None
    except (ValueError, RecursionError, OSError) as error:  # no UTF-8, no TOML, nested too deep
        if path.suffix != ".toml":
            raise ConfigurationError(
                f"{path}: a configuration is written in TOML; `assizes init FOLDER` writes one"
            ) from None
        remedy = "mend that line (texts stand in quotes)"
        if isinstance(error, UnicodeDecodeError):
            remedy = "save the file as UTF-8"
        elif re.search(r"hex value|Unescaped|escape", str(error)):
            remedy = "in quotes a backslash begins an escape: write / in paths"
        raise ConfigurationError(
            f"{path}: cannot be read as TOML: {error}; {remedy}, then `assizes doctor` checks the file"
        ) from None


def _environment_layer() -> dict[str, Any]:
    """The settings in variables `ASSIZES_TABLE__FIELD`; lists and tables are written as JSON."""
    if not any("__" in name for name in _own_variables()):
        return {}  # the usual case; pydantic_settings takes a third of a second to import
    from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsError

    class EnvironmentSettings(RunConfig, BaseSettings):  # type: ignore[misc]  # the two `model_config` differ; only field names are used
        """The fields that a variable can name."""

    try:
        return EnvSettingsSource(
            EnvironmentSettings, env_prefix=PREFIX, env_nested_delimiter="__"
        )()
    except SettingsError as error:  # a list or a table that is no JSON
        table = str(error).partition('"')[2].partition('"')[0]  # it names only the table
        names = [name for name in _own_variables() if name.startswith(f"{PREFIX}{table.upper()}__")]
        raise ConfigurationError(
            f"environment: {' or '.join(sorted(names))}: a list or a table must be JSON, e.g. "
            f"{PREFIX}JUDGE__JUDGES='[\"conversation\"]'"
        ) from None


def _merge_tables(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables field by field, subtables too; where both have a value, `above` wins."""
    merged = dict(below)
    for name, value in above.items():
        both = isinstance(value, dict) and isinstance(below.get(name), dict)
        merged[name] = _merge_tables(below[name], value) if both else value
    return merged


def _set_value(body: dict[str, Any], path: Sequence[str], value: Any, where: str) -> None:
    target = body
    for part in path[:-1]:
        target = target.setdefault(part, {})  # the pair may be the table's first setting
        if not isinstance(target, dict):
            raise ConfigurationError(
                f"{where}: {part!r} is a value, not a table; write --set {part}=VALUE"
            )
    target[path[-1]] = value


def _toml_value(text: str) -> Any:
    """The text parsed as a TOML value; the text itself where it is none (a model name, a path)."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
