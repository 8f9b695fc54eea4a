# SPDX-License-Identifier: Apache-2.0
"""Where backends' libraries and ours are looked for: not where others may be able to write."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tvm
import tvm_collage

OURS = Path(tvm_collage.library_path("tvm_collage_runtime"))
TVMS = Path(tvm._ffi.libinfo.find_lib_path("libtvm_runtime.so")[0])
ASK = """
import ctypes, sys, tvm
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
print(tvm.get_global_func("collage.onednn.why_unavailable")())
print("PLANTED" if any("planted" in line for line in open("/proc/self/maps")) else "CLEAN")
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A library that says it is oneDNN, to be put where it must not be found."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("made") / "libdnnl.so.3"
    code = "const int* dnnl_version(void) { static const int v[3] = {3, 4, 0}; return v; }"
    command = [compiler, "-shared", "-fPIC", "-xc", "-", "-Wl,-soname,planted", "-o", library]
    subprocess.run(command, input=code, text=True, check=True)
    return library


def link(source, folder):
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / source.name
    target.symlink_to(source)
    return target


def plant_above(planted, folder, stop):
    """Put it in every folder from `folder` up to `stop`, and in a `lib` of each."""
    for above in [folder, *folder.parents]:
        for place in (above / "planted", above / "lib"):
            place.mkdir(exist_ok=True)
        shutil.copy(planted, above / "libdnnl.so.3")
        shutil.copy(planted, above / "lib" / "libdnnl.so.3")
        if above == stop:
            return


def ask(runtime, tvm_folder, **environment):
    """Why oneDNN will not do in a process with those two libraries, and was the planted opened?"""
    left_out = ("COLLAGE_ONEDNN_LIBRARY", "LD_LIBRARY_PATH")
    env = {key: value for key, value in os.environ.items() if key not in left_out}
    env |= {"TVM_USE_RUNTIME_LIB": "1", "TVM_LIBRARY_PATH": str(tvm_folder), **environment}
    done = subprocess.run(
        [sys.executable, "-c", ASK, runtime], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    *reason, opened = done.stdout.splitlines()
    return "\n".join(reason), opened


def test_a_library_planted_above_ours_or_tvms_is_not_opened(planted, tmp_path):
    root = tmp_path / "planted"
    runtime = link(OURS, root / "a" / "b" / "c")
    tvms = link(TVMS, root / "x" / "y" / "tvm").parent
    plant_above(planted, runtime.parent.parent, root)
    plant_above(planted, tvms, root)
    reason, opened = ask(runtime, tvms)
    assert opened == "CLEAN"
    # What the loader itself finds may do; if nothing does, the user reads where was looked.
    assert reason in ("", "None") or "or name the file in COLLAGE_ONEDNN_LIBRARY" in reason


def test_a_folder_that_only_looks_like_an_environment_is_none(planted, tmp_path):
    root = tmp_path / "planted"
    runtime = link(OURS, root / "site-packages" / "tvm_collage" / "lib")
    tvms = link(TVMS, root / "tvm").parent
    plant_above(planted, runtime.parents[2], root)  # tvm_collage/lib itself is the loader's
    assert ask(runtime, tvms)[1] == "CLEAN"


def test_the_environment_of_our_library_and_the_variable_are_looked_in(planted, tmp_path):
    site = tmp_path / "planted" / "lib" / "python3.11" / "site-packages"
    runtime = link(OURS, site / "tvm_collage" / "lib")
    tvms = link(TVMS, tmp_path / "elsewhere").parent
    library = Path(shutil.copy(planted, tmp_path / "planted" / "lib"))
    reason, opened = ask(runtime, tvms)
    assert opened == "PLANTED"
    named = tmp_path / "nowhere.so"
    reason, opened = ask(runtime, tvms, COLLAGE_ONEDNN_LIBRARY=str(named))
    assert opened == "CLEAN" and "COLLAGE_ONEDNN_LIBRARY" in reason and str(named) in reason
    # An absent one is named too, with where it would lie.
    library.unlink()
    reason, opened = ask(runtime, tvms)
    assert opened == "CLEAN"
    assert reason == "" or f"{site}/../../libdnnl.so.3" in reason


def test_lib_beside_lib64(planted, tmp_path):
    """Python's own is <environment>/lib64 on some systems, and pip puts data into lib."""
    root = tmp_path / "planted"
    runtime = link(OURS, root / "lib64/python3.11/site-packages/tvm_collage/lib")
    (root / "lib").mkdir()
    shutil.copy(planted, root / "lib")
    assert ask(runtime, link(TVMS, tmp_path / "elsewhere").parent)[1] == "PLANTED"


def test_our_own_libraries_are_looked_for_in_this_environment_alone(monkeypatch):
    monkeypatch.delenv("TVM_COLLAGE_LIBRARY_PATH", raising=False)
    package = Path(tvm_collage.__file__).parent
    places = {package / "lib", Path(sys.prefix).resolve(), Path(sys.prefix)}
    for folder in map(Path, tvm_collage.library_directories()):
        assert folder.parts[-2:] == ("tvm_collage", "lib")
        assert places & {folder, *folder.parents}
