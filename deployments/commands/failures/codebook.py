"""`assizes causes codebook`: the causes of a run as failure codes in a file that people edit."""

from __future__ import annotations

from pathlib import Path

from assizes.deployments.commands import output
from assizes.deployments.commands.stores import opened_store
from assizes.judge.errors import ConfigurationError
from assizes.judge.rubrics.codebook import (
    MAX_CODES,
    Codebook,
    code_text,
    new_codebook_text,
    parse_codebook,
)


def write_codebook(
    run_id: str, path: Path, file: Path | None, uri: str | None, *, as_json: bool
) -> None:
    """Append codes for the causes of a run to a codebook, which is begun where there is none.

    What stands in the file is not changed.

    Raises:
        UnknownRun: the store has no such run.
        ConfigurationError: the run is not complete, or the file is no codebook or cannot be written.
    """
    # scikit-learn, which this imports, is slow to import.
    from assizes.judge.causes.coding import new_codes
    from assizes.tasks.runs.run_causes import causes_of_run

    text = _text(path)
    book = Codebook() if text is None else parse_codebook(text, str(path))
    with opened_store(file, uri) as store:
        found = causes_of_run(store, run_id)
    codes = new_codes(found.causes, found.remembered, book)
    if text is None:
        text = new_codebook_text(path.name)
    ended = text if text.endswith("\n") else f"{text}\n"
    whole = ended + "".join(map(code_text, codes))
    written = parse_codebook(whole, str(path))  # never leave a file that no judge can read
    try:
        path.write_text(whole, "utf-8")
    except OSError as error:
        raise ConfigurationError(f"--to {path}: cannot be written: {error}") from error
    if as_json:
        new = [code.model_dump(mode="json") for code in codes]
        output.print_json({"file": str(path), "codes": len(written.codes), "new": new})
        return
    output.print_line(f"{path}: {len(codes)} new codes, {len(book.codes)} kept as they were")
    output.print_lines(f"{code.code}: {code.definition}" for code in codes)
    if len(written.codes) == MAX_CODES:
        output.print_line(f"a codebook has at most {MAX_CODES} codes; merge some to make room")


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--to {path}: cannot be read: {error}") from error


def print_agreement(
    run_id: str,
    labels: Path | None,
    metric: str,
    file: Path | None,
    uri: str | None,
    *,
    as_json: bool,
) -> None:
    """Print how far the judge's failure codes agree with those of people, in a file or on the pages.

    Raises:
        UnknownRun: the store has no such run.
        ConfigurationError: the file cannot be used, or there are no codes.
    """
    from assizes.judge.calibration.code_agreement import code_agreement
    from assizes.tasks.runs.edits.coded_items import coded_items

    with opened_store(file, uri) as store:
        agreement = code_agreement(coded_items(store, run_id, metric, labels))
    if as_json:
        numbers = {"accuracy": agreement.accuracy, "kappa": agreement.kappa}
        estimates = {name: value.model_dump(mode="json") for name, value in numbers.items()}
        codes = [row._asdict() for row in agreement.codes]
        output.print_json({"items": agreement.items, **estimates, "codes": codes})
        return
    output.print_line(
        f"{agreement.items} items: kappa {agreement.kappa}, same code {agreement.accuracy}"
    )
    output.print_table("", ("code", "#people", "#judge", "#both"), agreement.codes)
