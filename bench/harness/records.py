# SPDX-License-Identifier: Apache-2.0
"""Records of measurements, a JSON object a line, and the conditions under which one need not be
made again: machine, versions, code, variables of threads.

A record has what it is of under its own names, and under "conditions" what its figures depend on.
Ours is a hash of the code: a version number stays as it is while the code is worked on.
Test: bench/test_harness.py.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .arguments import ROOT

# A user's variables on which figures depend.
THREAD_VARIABLES = (
    *("OMP_P", "OMP_WAIT_POLICY", "GOMP_", "KMP_", "TVM_BIND_THREADS", "MKL_"),
    *("COLLAGE_FLUSH_DENORMALS", "COLLAGE_SPREAD_THREADS"),
)
_LIBRARIES = ("tvm_collage", "tvm_collage_runtime", "tvm_collage_pool")
Record = Mapping[str, Any]


def load(file: Path, key: Sequence[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Load records by the values of these names; of several with the same the last; none where the
    file is not there."""
    lines = file.read_text().splitlines() if file.exists() else []
    records = [json.loads(line) for line in lines if line.strip()]
    return {tuple(record[name] for name in key): record for record in records}


def save(file: Path, key: Sequence[str], record: Record) -> None:
    """Add a record, in place of the one that is there: the whole file is written anew, or the old
    one stays. It is sorted, so that a change of one record is one line. Whoever saves at the same
    time waits, so that no record is lost."""
    file.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(file.parent, os.O_RDONLY)  # its lock leaves no file behind
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        # Read again: others may have written meanwhile.
        records = {**load(file, key), tuple(record[name] for name in key): record}
        lines = [json.dumps(records[each], sort_keys=True) + "\n" for each in sorted(records)]
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        temporary.write_text("".join(lines))
        os.replace(temporary, file)
    finally:
        os.close(folder)


def write_figures(file: Path, figures: Any) -> None:
    """Write all figures of a run, as one JSON file that is made anew."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(figures, indent=2) + "\n")


def is_current(record: Record, conditions: Record, names: Iterable[str]) -> bool:
    """Return if a record was made under these conditions, as far as they are named, so that
    measuring again tells nothing."""
    wanted = json.loads(json.dumps(conditions))  # as the record's were written
    return all(record["conditions"].get(name) == wanted.get(name) for name in names)


def conditions(settings: Record, packages: Iterable[str]) -> dict[str, Any]:
    """Return what figures depend on: settings of the run, versions of ours and of these, the
    machine."""
    found = {**settings, "versions": versions(packages), "machine": describe_machine()}
    return found | {"variables": thread_variables() or None}


def describe_machine() -> dict[str, Any]:
    """Return what figures depend on of the machine. Cloud machines of several generations share the
    mere name of a CPU, so that its family and model are told, too."""
    from tvm.relay.collage.machine.environment import cpu_model  # --help needs no TVM

    return {"cpu": cpu_model(), "cores": len(os.sched_getaffinity(0))}


def origin(found: Iterable[Record]) -> str:
    """Return where and when the records were made."""
    made = list(found)
    machines = {_machine_text(each["conditions"]["machine"]) for each in made}
    days = {each["date"] for each in made}
    return f"{'; '.join(sorted(machines))}; {', '.join(sorted(days))}"


def _machine_text(machine: Mapping[str, Any]) -> str:
    return f"{machine['cpu']}, {machine['cores']} CPUs"


def thread_variables() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name.startswith(THREAD_VARIABLES)}


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Package -> version for ours, TVM and these."""
    import tvm
    import tvm_collage

    found = {"collage": f"{tvm_collage.__version__} {code_hash()}", "tvm": tvm.__version__}
    return found | {package: version(package) for package in packages}


def code_hash() -> str:
    """Hash what compiles and runs our side, makes the nets, sets the peers up and judges: shared
    libraries and Python files, by content; not what writes tables."""
    import tvm_collage
    from tvm.relay import collage

    paths = [tvm_collage.library_path(name) for name in _LIBRARIES]
    files = [Path(path) for path in paths if path is not None]
    folders = [Path(package.__file__).parent for package in (collage, tvm_collage)]
    folders += [ROOT / "bench" / name for name in ("models", "harness", "trials")]
    for folder in folders:
        files += sorted(folder.rglob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def commit() -> str:
    """Return the tree's commit, with a plus where tracked files differ from it."""
    command = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"
