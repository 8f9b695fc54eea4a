# SPDX-License-Identifier: Apache-2.0
"""Tell what records of ONNX's cases say: counts, what is not right, what has changed.

Test: bench/test_conformance.py.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.records import origin
from harness.tables import markdown_table, text_table
from node_tests import ONNXRUNTIME, OUTCOMES, REFUSED, RIGHT

# What differs in reasons that are alike: names, types, numbers.
_NAMES = re.compile(r"""(['"]).*?\1|\w+\(.*?\)|(?<=type )\S+|(?<=input )\S+|-?\d[\w.-]*""")
Record = Mapping[str, Any]
_HEAD = ["side", "cases", *OUTCOMES, "refused, but not in one clean line"]


def summary_text(found: Sequence[Record]) -> str:
    return text_table(_HEAD, _counts(found))


def not_right(found: Sequence[Record]) -> Iterator[str]:
    """Return a line for each case that is not right on a side of ours, the worst first."""
    peers = _peers(found)
    for each in _of_ours(found):
        notes = [each["outcome"], *([] if each["is_clean"] else ["not one clean line"])]
        notes += [f"onnxruntime {peers[each['case']]}"] if each["case"] in peers else []
        yield f"{each['case']} ({', '.join(notes)}): {each['reason']}"


def changes(before: Iterable[Record], found: Iterable[Record]) -> Iterator[str]:
    """Return a line for each case that has become right, or is so no longer."""
    former = {(each["case"], each["side"]): each for each in before}
    for each in found:
        old = former.get((each["case"], each["side"]))
        if old and (old["outcome"] == RIGHT) != (each["outcome"] == RIGHT):
            is_right = each["outcome"] == RIGHT
            other = old if is_right else each
            title = f"newly {'right' if is_right else 'not right'}: {each['case']} {each['side']}"
            yield f"{title}: {other['outcome']} {other['reason']}"


def tables(found: Sequence[Record]) -> str:
    """Return all that the records say, as Markdown."""
    peers, alike = _peers(found), defaultdict(list)
    for each in _of_ours(found):
        words = _NAMES.sub("", each["reason"])
        alike[each["outcome"], peers.get(each["case"], "-"), words].append(each)
    rows = [
        [
            outcome,
            peer,
            ", ".join(dict.fromkeys(_name(each) for each in listed)),
            listed[0]["reason"],
        ]
        for (outcome, peer, _), listed in alike.items()
    ]
    versions = sorted({text for each in found for text in _versions(each["conditions"])})
    commits = sorted({each["conditions"]["commit"] for each in found})
    lines = [
        f"- {origin(found)}.",
        f"- Versions: {'; '.join(versions)}. Commits: {'; '.join(commits)}.",
    ]
    head = ["outcome", "onnxruntime", "cases", "reason, of the first"]
    return "\n".join(
        ["\n".join(lines), "", markdown_table(_HEAD, _counts(found)), markdown_table(head, rows)]
    )


def _counts(found: Sequence[Record]) -> list[list[str]]:
    """Return a row for each side, and one for its cases that have more than arrays of numbers."""
    by_row: dict[tuple[str, bool], list[Record]] = defaultdict(list)
    for each in found:
        by_row[each["side"], not each["not_plain"]].append(each)
    rows = []
    for (side, is_plain), listed in by_row.items():
        counts = Counter(each["outcome"] for each in listed)
        unclean = sum(each["outcome"] == REFUSED and not each["is_clean"] for each in listed)
        numbers = [len(listed), *(counts[name] for name in OUTCOMES)]
        numbers.append(unclean if side != ONNXRUNTIME else 0)
        title = side if is_plain else f"{side}, not of arrays of numbers alone"
        rows.append([title, *map(str, numbers)])
    return rows


def _of_ours(found: Iterable[Record]) -> list[Record]:
    ours = [each for each in found if each["side"] != ONNXRUNTIME and each["outcome"] != RIGHT]
    return sorted(
        ours, key=lambda each: (OUTCOMES.index(each["outcome"]), each["side"], each["case"])
    )


def _peers(found: Iterable[Record]) -> dict[str, str]:
    """Return what becomes of each case in onnxruntime."""
    return {each["case"]: each["outcome"] for each in found if each["side"] == ONNXRUNTIME}


def _name(record: Record) -> str:
    return record["case"].removeprefix("test_")


def _versions(conditions: Mapping[str, Any]) -> list[str]:
    """Return versions of packages; the commit tells ours."""
    return [f"{name} {text}" for name, text in conditions["versions"].items() if name != "collage"]
