"""What a request names: who proposes, and the edited file that is to be tried."""

from __future__ import annotations

from pathlib import Path

from assizes.judge.alignment.proposer import FunctionProposer, ModelProposer, Proposer
from assizes.judge.alignment.result import AlignmentRequest
from assizes.judge.alignment.rubric_files import RubricFile, read_rubric_file
from assizes.judge.errors import ConfigurationError
from assizes.judge.families.custom.python_judges import load_reference, reference_error


def proposer_of(request: AlignmentRequest) -> Proposer:
    """The proposer that a request names.

    Raises:
        ConfigurationError: it names none, or its function cannot be imported.
    """
    if request.optimiser is not None:
        wanted = "wanted module:function, e.g. 'my_module:my_optimiser'"
        function = load_reference(request.optimiser, "--optimiser", wanted)
        if not callable(function):
            raise reference_error("--optimiser", request.optimiser, "is no function")
        return FunctionProposer(request.optimiser, function)
    if request.model is None and request.file is None:
        raise ConfigurationError("--model: name the model that proposes guidelines, or --optimiser")
    return ModelProposer(request.model or "a person")


def edited_rubric(request: AlignmentRequest) -> RubricFile | None:
    """The file that a request wants to be tried; `None`: a proposal is wanted.

    Raises:
        ConfigurationError: the file cannot be read, or is about another metric.
    """
    if request.file is None:
        return None
    file = read_rubric_file(Path(request.file))
    if file.metric != request.metric:
        raise ConfigurationError(
            f"{request.file}: a rubric of {file.metric!r}, not of {request.metric!r}"
        )
    return file
