# SPDX-License-Identifier: Apache-2.0
"""Libraries without the compiler: what runs one in Python, and how demos/cpp_deploy is called."""

import os
import subprocess

RUNTIME_ONLY = """
import ctypes, sys
import numpy as np
import tvm
from tvm.contrib import graph_executor
import tvm_collage
assert tvm._ffi.base._RUNTIME_ONLY
assert tvm.get_global_func("relay._transform.InferType", allow_missing=True) is None
ctypes.CDLL(tvm_collage.library_path("tvm_collage_runtime"), mode=ctypes.RTLD_GLOBAL)
library, inputs, outputs = sys.argv[1:]
module = graph_executor.GraphModule(tvm.runtime.load_module(library)["default"](tvm.cpu()))
module.set_input("x", np.load(inputs))
module.run()
np.save(outputs, module.get_output(0).numpy())
"""


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
