# SPDX-License-Identifier: Apache-2.0
"""Check format and style of the report page's scripts, which are one program: page.html names them
in the order in which it holds them. Part of `make lint`; --write formats them.
Test: tools/test_check_scripts.py.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path("tvm/python/tvm/relay/collage/report/html/page.html")
FORMAT = {"printWidth": 100}
# What is not declared is a mistake, unless browsers have it or the page begins with it.
STYLE = {
    "env": {"browser": True, "es2024": True},
    "globals": {"DATA": "readonly"},
    "rules": {"no-undef": "error"},
}


def check(page: Path, mode: str = "--check") -> int:
    """Return 0, or what the tools say is wrong with the scripts of a page."""
    paths = [page.parent / name for name in re.findall(r"/\* (\w+\.js) \*/", page.read_text())]
    lost = set(page.parent.glob("*.js")) - set(paths)
    if lost:
        print(f"{page} does not name {sorted(path.name for path in lost)}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, "page.js")
        whole.write_text("".join(path.read_text(encoding="utf-8") for path in paths))
        settings = {}
        for tool, values in (("oxfmt", FORMAT), ("oxlint", STYLE)):
            settings[tool] = Path(folder, f"{tool}.json")
            settings[tool].write_text(json.dumps(values))
        for tool, *arguments in (
            ["oxfmt", mode, "--config", settings["oxfmt"], *paths],
            ["oxlint", "--deny-warnings", "--config", settings["oxlint"], whole],
        ):
            # Beside the Python of this environment, whose folder need not be on PATH.
            command = [Path(sys.executable).with_name(tool), *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(done.stdout + done.stderr, file=sys.stderr)
                return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(check(PAGE, "--write" if "--write" in sys.argv[1:] else "--check"))
