# SPDX-License-Identifier: Apache-2.0
"""How demos/cpp_deploy, which the fixture `program` builds, is called."""

import os
import subprocess


def run_program(program, path, data, tmp_path, *words, requests="", **env):
    """Variables of None are unset."""
    data.tofile(tmp_path / "in.bin")
    shape = "x".join(str(extent) for extent in data.shape)
    env = {name: value for name, value in {**os.environ, **env}.items() if value is not None}
    return subprocess.run(
        [program, path, "x", shape, tmp_path / "in.bin", *words],
        input=requests,
        capture_output=True,
        text=True,
        timeout=120,
        env=env,
    )
