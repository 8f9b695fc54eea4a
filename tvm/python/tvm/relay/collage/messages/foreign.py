# SPDX-License-Identifier: Apache-2.0
"""Patterns for the words of others' messages (TVM's, LLVM's, compilers'), where nothing typed says
it.

Each pattern names whose words it knows; its test has them say it, so that a version with other
words fails there. Test: messages/test_foreign.py.
"""

from __future__ import annotations

import re

# TVM (target.cc), of a name that is neither a kind of target nor a tag.
_UNKNOWN_KIND = re.compile(r'Target kind "([^"]+)" is not (?:defined|found)')
# TVM (type inference), of each expression around the one that is wrong.
_AROUND = "The type inference pass was unable to infer a type for this expression."
# TVM's RPC (rpc_endpoint.cc), when the other side has ended the session.
_SHUTDOWN = "kShutdown"
# Linkers in the locale C: GNU's say "undefined reference to `f'", LLVM's "undefined symbol: f".
_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:) [`'\"]?(\w+)")
# TVM, before the words of an error of C++'s usual kind, which tells nothing.
_KIND = "RuntimeError: "
# TVM, in front of what an argument of its FFI is not: the function, the time and the place in C++.
_STAMP = re.compile(r".*error while converting argument \d+: \[[\d:]+\] \S+:\d+: ")
# gcc, clang and linkers in the locale C.
_ERROR = re.compile(r"error|cannot find|" + _UNDEFINED.pattern)


def last_line(error: BaseException) -> str:
    """Return the last line of an error's text that has words: what TVM says after its stack; its
    repr where none has, and words around the name that a KeyError consists of."""
    if isinstance(error, KeyError) and error.args:
        return f"{', '.join(map(repr, error.args))} is not known"
    lines = [line for line in str(error).splitlines() if any(map(str.isalnum, line))]
    return _STAMP.sub("", lines[-1].strip().removeprefix(_KIND)) if lines else repr(error)


def describe(error: BaseException) -> str:
    """Return the telling line of an exception, with its kind: TVM's carry a long C++ stack before
    it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kind = type(error).__name__
    if not lines:
        return kind
    telling = lines[-1] if "Traceback" in lines[0] else lines[0]
    return (telling if telling.startswith(kind) else f"{kind}: {telling}")[:500]


def unknown_target_kind(error: BaseException) -> str | None:
    """Return the kind of target that TVM does not know; None for an error of another sort."""
    found = _UNKNOWN_KIND.search(str(error))
    return found[1] if found else None


def is_consequence(diagnostic: str) -> bool:
    """Return whether TVM's type inference says only that something inside an expression is
    wrong."""
    return diagnostic.startswith(_AROUND)


def is_end_of_session(message: str) -> bool:
    """Return whether TVM's RPC failed because the device has ended the session."""
    return _SHUTDOWN in message


def undefined_symbols(output: str) -> set[str]:
    """Return the symbols that a linker says nobody defines."""
    return set(_UNDEFINED.findall(output))


def error_lines(output: str) -> list[str]:
    """Return the lines of a compiler's output that say what is wrong; all of it where none does."""
    lines = output.splitlines()
    return [line for line in lines if _ERROR.search(line)] or lines
