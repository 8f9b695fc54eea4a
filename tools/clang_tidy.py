# SPDX-License-Identifier: Apache-2.0
"""Run clang-tidy on the sources of a build folder, skipping those that passed unchanged.

Usage: ``clang_tidy.py BUILD_DIR``. A file is unchanged when its own text, all headers of ours, the
command that compiles it, ``.clang-tidy`` and clang-tidy itself are; what passed is remembered in
``BUILD_DIR/clang_tidy_passed.json``.
"""

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def run(build: Path) -> int:
    """Check each source in parallel, print what fails; return the number of failing files."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    command_of = {Path(each["directory"], each["file"]).resolve(): each for each in commands}
    root = Path.cwd()
    sources = [p for p in sorted(command_of) if p.is_file() and p.is_relative_to(root / "tvm")]
    memory = build / "clang_tidy_passed.json"
    passed = json.loads(memory.read_text(encoding="utf-8")) if memory.exists() else {}
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    headers = [root / ".clang-tidy", *sorted((root / "tvm").rglob("*.h"))]
    common = _digest(version, *(path.read_bytes() for path in headers))

    digests = {
        str(path.relative_to(root)): common
        + _digest(json.dumps(command_of[path]).encode(), path.read_bytes())
        for path in sources
    }
    stale = [name for name, digest in digests.items() if passed.get(name) != digest]
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as executor:
        for name, output in executor.map(lambda name: (name, _check(build, name)), stale):
            if output is None:
                passed[name] = digests[name]
            else:
                failed += 1
                print(output, file=sys.stderr)
    memory.write_text(json.dumps(passed, indent=1), encoding="utf-8")
    return failed


def _check(build: Path, name: str) -> str | None:
    """Return None when the file passes, else what clang-tidy says."""
    command = ["clang-tidy", "--quiet", "-p", str(build), *_EXTRA, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    return done.stdout.strip() or f"{name}: {done.stderr.strip()}"


def _compiler_headers() -> list[str]:
    """Let clang-tidy find headers that only the compiler has, such as omp.h, after its own."""
    command = [*os.environ.get("CXX", "g++").split(), "-print-file-name=include"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return []
    return [f"--extra-arg=-idirafter{found}"]


_EXTRA = _compiler_headers()


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(1 if run(Path(sys.argv[1])) else 0)
