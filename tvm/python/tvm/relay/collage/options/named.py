# SPDX-License-Identifier: Apache-2.0
"""Texts that know which of Collage's options they name, so that whoever shows one may call these in
another way, as a command line does by its flags. Test: options/test_named.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple


class OptionName(NamedTuple):
    """An option in a text."""

    name: str
    written: str  # as those who use Python know it
    value: str = ""  # what to set it to, "" where the text does not say


class OptionText(str):
    """A text, some of whose pieces name options. It stays one as other texts are added to it."""

    pieces: tuple[str | OptionName, ...]

    def __new__(cls, *pieces: str | OptionName) -> OptionText:
        text = super().__new__(cls, "".join(map(_written, pieces)))
        text.pieces = pieces
        return text

    def __add__(self, other: str) -> OptionText:
        return OptionText(*self.pieces, *_pieces_of(other))

    def __radd__(self, other: str) -> OptionText:
        return OptionText(*_pieces_of(other), *self.pieces)

    def with_options(self, called: Callable[[OptionName], str]) -> str:
        """Return the text with each option as it is `called`."""
        return "".join(p if isinstance(p, str) else called(p) for p in self.pieces)


def option(name: str, written: str = "", value: str = "") -> OptionText:
    """Make a text that names an option, as "option relay.collage.<name>" unless it is `written` in
    another way."""
    return OptionText(OptionName(name, written or f"option relay.collage.{name}", value))


def joined(separator: str, texts: Iterable[str]) -> OptionText:
    """Join as separator.join(texts) does."""
    found = OptionText()
    for number, text in enumerate(texts):
        found += (separator if number else "") + text
    return found


def _written(piece: str | OptionName) -> str:
    return piece if isinstance(piece, str) else piece.written


def _pieces_of(text: str) -> tuple[str | OptionName, ...]:
    return text.pieces if isinstance(text, OptionText) else (text,)
