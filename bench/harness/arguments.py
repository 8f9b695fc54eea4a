# SPDX-License-Identifier: Apache-2.0
"""Arguments that several benchmarks take, and types of arguments whose errors name what to choose.

Nothing of TVM is imported before an argument is read, so that a process in which its import is
timed can have this module. Test: bench/test_harness.py.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import models

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench/results"  # the records that pages are made of
_T = TypeVar("_T")


def checked(parse: Callable[[str], _T]) -> Callable[[str], _T]:
    """Make the function an argument's type: what it raises is said to the user as it stands."""

    @functools.wraps(parse)
    def read(text: str) -> _T:
        try:
            return parse(text)
        except (TypeError, ValueError, RuntimeError) as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


def at_least(least: int) -> Callable[[str], int]:
    """Return the type of a whole number that has a least value."""

    @checked
    def read(text: str) -> int:
        if not text.lstrip("+-").isdigit() or int(text) < least:
            raise ValueError(f"must be at least {least}, got {text!r}")
        return int(text)

    return read


def listed(text: str) -> list[str]:
    """Return names with commas between."""
    return [item.strip() for item in text.split(",") if item.strip()]


def chosen_of(known: Any, what: str) -> Callable[[str], list[str]]:
    """Return the type of names with commas between, of those that are known."""

    @checked
    def read(text: str) -> list[str]:
        names = listed(text)
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            wrong = f"unknown {what} {', '.join(unknown)}" if unknown else f"no {what} named"
            raise ValueError(f"{wrong}: choose of {', '.join(known)}")
        return names

    return read


@checked
def nets(text: str) -> list[models.Net]:
    """Find nets of bench/models by name."""
    import models

    return models.find(text)


@checked
def backends(text: str) -> list[str]:
    """Find Collage's external backends by name, which can run here."""
    from tvm.relay.collage.backends import require_backend

    return [require_backend(name).name for name in listed(text)]


@checked
def setting(text: str) -> tuple[str, Any]:
    """Read a Collage option as name and value; the value is JSON, or text."""
    from tvm.relay.collage.options import PREFIX, check_options, option_table

    name, equals, value = text.partition("=")
    known = [row[0] for row in option_table()]
    if not equals or name not in known:
        raise ValueError(f"--collage takes NAME=VALUE with one of {', '.join(known)}, got {text!r}")
    with contextlib.suppress(json.JSONDecodeError):
        value = json.loads(value)
    return name, check_options({PREFIX + name: value})[name]


# Arguments by name: what each is for every benchmark that takes it.
_SHARED: dict[str, dict[str, Any]] = {
    "nets": {"type": nets, "help": "of bench/models, with commas between, or all"},
    "rounds": {"type": at_least(1), "help": "of measuring"},
    "threads": {"type": at_least(1), "help": "of each side (default: the cores)"},
    "batch": {"type": at_least(1)},
    "backends": {
        "type": backends,
        "help": "external ones of Collage, with commas between",
    },
    "collage": {
        "type": setting,
        "action": "append",
        "metavar": "NAME=VALUE",
        "help": "an option of Collage; the value as JSON (true, 0.5) or text",
    },
    "output": {"type": Path, "help": "JSON file for all figures"},
    "rtol": {"type": float, "help": "largest error of outputs"},
    "record": {"type": Path, "help": "file of the records, where a run goes on"},
    "budget": {"type": float, "help": "seconds; nothing more is begun after them"},
    "keep": {"action": "store_true", "help": "records of other versions stand, too"},
    "allow_slow": {"action": "store_true", "help": "do not fail on time: a busy machine"},
}
# Of a benchmark whose records resume.run makes.
RESUMED: dict[str, Any] = {"budget": float("inf"), "keep": False}


def make_parser(document: str, **defaults: Any) -> argparse.ArgumentParser:
    """Return a parser of the shared arguments that are named, with their defaults; `threads` has
    one of its own. The document's first paragraph is the help."""
    from tvm_collage.threads import default_threads

    parser = argparse.ArgumentParser(description=document.split("\n\n")[0])
    for name, default in defaults.items():
        if name == "threads" and default is None:
            default = default_threads()
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, **_SHARED[name])
    return parser


def status_of(faults: Iterable[str]) -> int:
    """Print the faults, and return the exit status of a benchmark that has these."""
    found = list(faults)
    for line in found:
        print(f"FAULT {line}", flush=True)
    return 1 if found else 0
