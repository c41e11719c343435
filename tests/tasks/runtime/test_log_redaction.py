"""What the log and Prefect see of our flows: lines and errors without secrets."""

from __future__ import annotations

import logging
import traceback

import pytest

from assizes.judge.privacy.secret_masking import MASK, register_secrets
from assizes.tasks.runtime.process import install_log_redaction, mask_error, redacts_secrets

OWN = "z9c0ffee66bb"


@pytest.fixture(autouse=True)
def _known():
    register_secrets([OWN])
    install_log_redaction()


def broken() -> None:
    try:
        {}[OWN]
    except KeyError as error:
        raise ValueError(f"by {OWN}") from error


@pytest.mark.row("S4")
def test_lines_of_any_logger_are_rid_of_secrets(caplog: pytest.LogCaptureFixture):
    logging.getLogger("somebody.else").warning("with %s and %d", OWN, 3)
    assert caplog.messages == [f"with {MASK} and 3"]


@pytest.mark.row("S4")
def test_so_are_tracebacks_with_what_led_to_them(caplog: pytest.LogCaptureFixture):
    try:
        broken()
    except ValueError:
        logging.getLogger("somebody.else").exception("it broke")
    assert OWN not in caplog.text
    assert f"ValueError: by {MASK}" in caplog.text


def test_a_line_with_wrong_arguments_is_left_to_logging():
    made = logging.getLogRecordFactory()("a", 20, "f", 1, "%d", ("x",), None)
    assert made.args == ("x",)


class Unprintable:
    def __str__(self) -> str:
        raise AttributeError("no text")


def write_line(template: object, *args: object) -> None:
    """Log to stderr alone: a handler of pytest's would raise where logging reports."""
    record = logging.getLogger("x").makeRecord("x", logging.WARNING, "f", 1, template, args, None)
    logging.StreamHandler().handle(record)


@pytest.mark.row("S4")
@pytest.mark.parametrize("value", [OWN, {"key": OWN}, ValueError(OWN)])
def test_a_line_that_cannot_be_formatted_is_reported_without_secrets(
    value: object, capsys: pytest.CaptureFixture[str]
):
    write_line("key %d of %s", value, "all")
    write_line("%(other)s", {"key": value})
    write_line(f"{OWN} %d", "x")
    text = capsys.readouterr().err
    assert text.count("--- Logging error ---") == text.count(MASK) == 3
    assert OWN not in text


def test_an_argument_without_a_text_breaks_no_code_that_logs(capsys: pytest.CaptureFixture[str]):
    write_line("with %s and %s", Unprintable(), OWN)
    write_line(Unprintable())
    text = capsys.readouterr().err
    assert text.count("AttributeError: no text") == 2
    assert OWN not in text


def test_the_factory_is_put_in_once():
    before = logging.getLogRecordFactory()
    install_log_redaction()
    assert logging.getLogRecordFactory() is before


@pytest.mark.row("S4")
def test_an_error_keeps_its_kind_and_what_is_no_text():
    error = OSError(2, f"no {OWN}")
    mask_error(error)
    assert error.args == (2, f"no {MASK}")


def test_errors_that_led_to_each_other_are_looked_at_once():
    one, other = ValueError(OWN), ValueError(OWN)
    one.__cause__, other.__context__ = other, one
    mask_error(one)
    assert (one.args, other.args) == ((MASK,), (MASK,))


@pytest.mark.row("S4")
def test_every_error_of_a_group_is_looked_at():
    members = [ValueError(f"{number} {OWN}") for number in range(50)]
    inner = ExceptionGroup("inner", [KeyError(OWN)])
    error = RuntimeError("outer")
    error.__cause__ = ExceptionGroup("several", [*members, inner])
    mask_error(error)
    assert [member.args for member in members] == [(f"{number} {MASK}",) for number in range(50)]
    assert inner.exceptions[0].args == (MASK,)


@pytest.mark.row("S4")
async def test_what_leaves_a_task_is_rid_of_secrets():
    class Made:
        async def fn(self) -> None:
            raise RuntimeError(OWN)

    made = Made()
    redacts_secrets(made)  # type: ignore[type-var]  # it has all that is looked at
    with pytest.raises(RuntimeError) as caught:
        await made.fn()
    assert OWN not in "".join(traceback.format_exception_only(caught.value))
