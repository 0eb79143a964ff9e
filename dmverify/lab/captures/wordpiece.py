"""WordPiece tokens of ASCII text: lower case, split at blanks and punctuation, longest piece first.

Source: Devlin et al., BERT (2018), and the vocabulary file of the model at hand.
Not covered: anything beyond ASCII (accents, CJK), for the passages contain none.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping

from dmverify.errors import InputError

_WORDS = re.compile(rf"[{re.escape(string.punctuation)}]|[^\s{re.escape(string.punctuation)}]+")


def read_vocabulary(text: str) -> dict[str, int]:
    """Return piece -> id from a vocabulary file, one piece a line."""
    return {piece: index for index, piece in enumerate(text.split("\n")) if piece}


def _pieces(word: str, vocabulary: Mapping[str, int]) -> list[str]:
    """Split one word greedily; a word that cannot be split completely becomes ``[UNK]``."""
    pieces: list[str] = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((e for e in ends if prefix + word[start:e] in vocabulary), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces


def encode(text: str, vocabulary: Mapping[str, int]) -> list[int]:
    """Return the token ids of ``text``, with ``[CLS]`` before and ``[SEP]`` behind.

    Raises:
        InputError: If the text is not ASCII.
    """
    if not text.isascii():
        raise InputError(
            "non-ASCII text", rule="passages are ASCII", fix="replace the characters beyond ASCII"
        )
    words = _WORDS.findall(text.lower())
    pieces = [piece for word in words for piece in _pieces(word, vocabulary)]
    return [vocabulary[piece] for piece in ("[CLS]", *pieces, "[SEP]")]
