# SPDX-License-Identifier: Apache-2.0
"""Print where an installed distribution put a file; run by CMake. Test: tools/test_install.py.

Usage: ``base_distribution.py NAME RELATIVE_FILE`` prints ``VERSION;DIRECTORY``, the directory
being the one that RELATIVE_FILE is relative to. The distribution is never imported, so this also
works in an isolated build environment, whose files lie outside of ``sys.prefix``.
"""

import importlib.metadata
import pathlib
import sys


def locate(name: str, relative_file: str) -> str:
    """Return ``version;directory`` of an installed distribution's file, or raise LookupError."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise LookupError(f"{name} is not installed in {sys.executable}") from None
    depth = len(pathlib.PurePosixPath(relative_file).parts)
    for file in distribution.files or []:
        if file.as_posix().endswith("/" + relative_file) or file.as_posix() == relative_file:
            found = pathlib.Path(distribution.locate_file(file)).resolve()
            return f"{distribution.version};{found.parents[depth - 1]}"
    raise LookupError(f"{name} {distribution.version} does not contain {relative_file}")


if __name__ == "__main__":
    try:
        print(locate(sys.argv[1], sys.argv[2]))
    except LookupError as error:
        sys.exit(str(error))
