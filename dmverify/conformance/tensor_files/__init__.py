"""Cases that somebody brings: tensors of a file, or arrays of a program.

| module | says |
|---|---|
| ``stored`` | what every kind of file gives: tensors that are read when they are needed |
| ``safetensors_file``, ``npz_file``, ``torch_file`` | how each kind is read, and what refuses it |
| ``groups`` | which tensors make a case, and what they must be |
| ``shelf`` | how a case gets an id by its content, and is found again by it |
"""

from dmverify.conformance.tensor_files.answers import AnswersOfFiles, files_with_answers
from dmverify.conformance.tensor_files.groups import read_cases
from dmverify.conformance.tensor_files.shelf import (
    FAMILY,
    bring_case,
    bring_file,
    brought_case,
    brought_ids,
    brought_outputs,
    can_be_brought,
    find,
    name_cases,
    sources_of,
    words_for,
)
from dmverify.conformance.tensor_files.source import Source, as_source

__all__ = [
    "FAMILY",
    "AnswersOfFiles",
    "Source",
    "as_source",
    "bring_case",
    "bring_file",
    "brought_case",
    "brought_ids",
    "brought_outputs",
    "can_be_brought",
    "files_with_answers",
    "find",
    "name_cases",
    "read_cases",
    "sources_of",
    "words_for",
]
