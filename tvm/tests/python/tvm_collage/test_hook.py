# SPDX-License-Identifier: Apache-2.0
"""The import hook: what it places, what it sets, what it leaves alone. Needs an installed tree."""

import base64
import hashlib
import importlib.metadata
import importlib.util
import json
import logging
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import tvm_collage
from tvm_collage import prepare, threads

STOCK = Path(sysconfig.get_path("platlib"), "tvm", "relay", "collage", "__init__.py")
THREAD_VARIABLES = (
    "GOMP_SPINCOUNT",
    "OMP_NUM_THREADS",
    "TOPHUB_LOCATION",
    "TVM_BIND_THREADS",
    "TVM_NUM_THREADS",
)


def run_python(*args: str, **variables: str) -> subprocess.CompletedProcess:
    """Run Python without the thread variables of this process, which imported TVM or may have."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in (*THREAD_VARIABLES, "COLLAGE_DISABLE")
    }
    return subprocess.run(
        [sys.executable, *args],
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def answer(code: str, **variables: str):
    """Run code that prints JSON in its last line, return the value."""
    done = run_python("-c", code, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def imported():
    """What a process finds that has imported TVM alone."""
    return answer(
        "import ctypes, json, tvm, tvm_collage\n"
        "address = lambda lib: ctypes.cast(lib.TVMBackendParallelLaunch, ctypes.c_void_p).value\n"
        "all, pool = ctypes.CDLL(None), tvm_collage.library_path('tvm_collage_pool')\n"
        "all.getenv.restype = ctypes.c_char_p\n"
        "print(json.dumps({\n"
        "    'package': [tvm.relay.collage.__name__, tvm.relay.collage.__file__],\n"
        "    'loaders': [type(x).__name__ for x in (tvm.__loader__, tvm.__spec__.loader)],\n"
        f"    'variables': [all.getenv(n.encode()).decode() for n in {THREAD_VARIABLES}],\n"
        "    'is_our_pool': pool and address(ctypes.CDLL(pool)) == address(all),\n"
        "}))"
    )


def test_import_of_tvm_alone_is_enough_and_keeps_its_own_loader(imported):
    name, path = imported["package"]
    assert name == "tvm.relay.collage"
    assert Path(path) == Path(tvm_collage.location(), "__init__.py")
    assert imported["loaders"] == ["SourceFileLoader"] * 2


def test_variables_reach_c_code(imported):
    count = str(threads.default_threads())
    assert imported["variables"] == ["1000", count, "NONE", "0", count]


@pytest.mark.skipif(
    tvm_collage.library_path("tvm_collage_pool") is None, reason="the pool library was not built"
)
def test_pool_takes_the_place_of_tvms(imported):
    assert imported["is_our_pool"] is True


def test_spawned_process_gets_ours(tmp_path):
    script = tmp_path / "spawn.py"
    script.write_text(
        "import json, multiprocessing\n"
        "def where(_):\n"
        "    from tvm.relay import collage\n"
        "    return collage.__file__\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(json.dumps(pool.map(where, [0])))\n"
    )
    done = run_python(str(script))
    assert done.returncode == 0, done.stderr
    assert Path(json.loads(done.stdout)[0]).parent == Path(tvm_collage.location())


def test_tvmc_runs_with_the_hook():
    done = run_python("-X", "importtime", "-m", "tvm.driver.tvmc", "--version")
    assert done.returncode == 0, done.stderr
    assert tvm_collage.BASE_TVM_VERSION in done.stdout
    assert "tvm_collage.prepare" in done.stderr


def test_disabled_gives_stock_tvm():
    path, finders, variables, maps = answer(
        "import json, os, sys, tvm; from tvm.relay import collage\n"
        "print(json.dumps([collage.__file__, [type(f).__name__ for f in sys.meta_path],"
        f"[os.environ.get(n) for n in {THREAD_VARIABLES}], open('/proc/self/maps').read()]))",
        COLLAGE_DISABLE="1",
    )
    assert Path(path).resolve() == STOCK.resolve()
    assert "CollageFinder" not in finders
    assert variables == [None] * len(THREAD_VARIABLES)
    assert "libtvm_collage" not in maps


def test_stock_files_are_untouched():
    files = importlib.metadata.files("xtc-tvm-python-bindings") or []
    relay = [f for f in files if f.parent.as_posix() in ("tvm/relay", "tvm/relay/collage")]
    hashed = [f for f in relay if f.hash and f.suffix == ".py"]
    assert len(hashed) > 5
    for file in hashed:
        digest = hashlib.new(file.hash.mode, file.read_binary()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.hash.value, file


def test_interpreter_start_loads_the_hook_and_no_other_module():
    """What keeps the start cheap; milliseconds would test the machine instead."""
    folder = Path(importlib.util.find_spec("tvm_collage_hook").origin).parent
    done = run_python(
        *("-S", "-c"),  # without site, so without the .pth that calls the hook
        "import os, sys\n"
        f"sys.path.append({str(folder)!r})\n"
        "before = set(sys.modules)\n"
        "import tvm_collage_hook\n"
        "tvm_collage_hook.install()\n"
        "print(*(set(sys.modules) - before))",
    )
    assert done.stdout.split() == ["tvm_collage_hook"], done.stderr


def test_interpreter_start_and_look_up_change_nothing():
    loaded, variables = answer(
        "import importlib.util, json, os, sys\n"
        "assert importlib.util.find_spec('tvm').origin.endswith('tvm/__init__.py')\n"
        "print(json.dumps([[m for m in sys.modules if m.split('.')[0] in ('tvm', 'tvm_collage')],"
        f"[os.environ.get(n) for n in {THREAD_VARIABLES}]]))"
    )
    assert loaded == []
    assert variables == [None] * len(THREAD_VARIABLES)


MINE = {"GOMP_SPINCOUNT": "0", "TVM_BIND_THREADS": "1", "TOPHUB_LOCATION": "here"}


@pytest.mark.parametrize(
    "given, expected",
    [
        ({"TVM_NUM_THREADS": "3"}, ("3", "3")),
        ({"OMP_NUM_THREADS": "5"}, ("5", "5")),
        ({"OMP_NUM_THREADS": "6,2"}, ("6", "6,2")),
        ({"TVM_NUM_THREADS": "3", "OMP_NUM_THREADS": "7", **MINE}, ("3", "7")),
    ],
)
def test_users_variables_are_kept(monkeypatch, given, expected):
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    prepare.set_thread_variables()
    assert (os.environ["TVM_NUM_THREADS"], os.environ["OMP_NUM_THREADS"]) == expected
    assert all(os.environ[name] == value for name, value in given.items())


def test_pool_that_does_not_load_is_one_clear_line(tmp_path):
    (tmp_path / "libtvm_collage_pool.so").write_text("not a library")
    done = run_python("-c", "import tvm", TVM_COLLAGE_LIBRARY_PATH=str(tmp_path))
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: tvm-collage cannot load its thread pool")
    assert "make build" in last


def test_other_tvm_version_is_one_clear_line(tmp_path):
    relay = tmp_path / "tvm" / "relay"
    relay.mkdir(parents=True)
    (tmp_path / "tvm" / "__init__.py").write_text("__version__ = '0.18.0'\n")
    (relay / "__init__.py").write_text("from . import collage\n")
    here = {"PYTHONPATH": str(tmp_path), "TVM_COLLAGE_LIBRARY_PATH": str(tmp_path)}
    assert run_python("-c", "import tvm; print(tvm.__version__)", **here).stdout == "0.18.0\n"
    last = run_python("-c", "import tvm.relay", **here).stderr.splitlines()[-1]
    assert last.startswith("ImportError: tvm-collage ")
    for part in ("needs TVM 0.19.0", "this is TVM 0.18.0", "pip install", "COLLAGE_DISABLE=1"):
        assert part in last


def fake_machine(root: Path, siblings: dict[int, str], files: dict[str, str]) -> str:
    """Write /sys and /proc files of a machine, return its root."""
    for cpu, group in siblings.items():
        files[f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"] = group
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return str(root)


HYPERTHREADS = {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}
V1 = "sys/fs/cgroup/cpu,cpuacct"


@pytest.mark.parametrize(
    "files, cpus, expected",
    [
        ({}, {0, 1, 2, 3}, 2),
        ({}, {0, 2}, 1),
        ({}, {0, 1}, 2),
        ({}, {7, 8, 9}, 3),  # no topology known: each its own core
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/b/cpu.max": "max 100000"}, {0, 1}, 2),
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/b/cpu.max": "150000 100000"}, {0, 1}, 1),
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/cpu.max": "100000 100000"}, {0, 1}, 1),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "50000 100000"}, {0, 1}, 1),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "400000 100000"}, {0, 1}, 2),
        (
            {
                "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/x",
                f"{V1}/x/cpu.cfs_quota_us": "100000",
                f"{V1}/x/cpu.cfs_period_us": "100000",
            },
            {0, 1},
            1,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/x",
                f"{V1}/x/cpu.cfs_quota_us": "-1",
                f"{V1}/x/cpu.cfs_period_us": "100000",
            },
            {0, 1},
            2,
        ),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "odd text here"}, {0, 1}, 2),
    ],
)
def test_default_threads(tmp_path, files, cpus, expected):
    root = fake_machine(tmp_path, HYPERTHREADS, dict(files))
    assert threads.default_threads(root, cpus) == expected


@pytest.mark.parametrize(
    "cpus, expected",
    [
        ({0, 1, 2, 3}, (4, 2, 2, 2, 2.5)),
        ({0, 2}, (2, 1, 1, 1, None)),
        ({1, 3}, (2, 1, 1, 1, None)),
        ({0, 1}, (2, 2, 2, 2, None)),
        ({9}, (1, 1, 0, 0, None)),  # nothing is known of it
    ],
)
def test_what_cpus_are(tmp_path, cpus, expected):
    """Two CPUs of one core are not two cores; which of two equal pairs it is does not matter."""
    cpu = "sys/devices/system/cpu/cpu"
    files = {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "250000 100000"}
    for number, group in HYPERTHREADS.items():
        files[f"{cpu}{number}/cache/index3/shared_cpu_list"] = group
        files[f"{cpu}{number}/node{number % 2}/cpulist"] = group
    root = fake_machine(tmp_path, HYPERTHREADS, files)
    assert threads.cpu_set(root, cpus) == expected
    assert threads.cores_of({3}, root) == {"1": [3]}


def test_default_threads_of_this_machine():
    assert 1 <= threads.default_threads() <= len(os.sched_getaffinity(0))


def test_openmp_runtimes_are_found_by_name(tmp_path):
    maps = tmp_path / "maps"
    line = "7f00-7f01 r-xp 00000000 fe:00 339585   {}\n"
    names = [
        "/usr/lib/libgomp.so.1.0.0",
        "/venv/torch/lib/libgomp-a34b3233.so.1",
        "/opt/libiomp5.so",
        "/opt/libompi.so",
        "/usr/lib/libc.so.6",
    ]
    maps.write_text(
        "".join(line.format(name) for name in [*names, names[0]]) + "7f-8f rw-p 0 0 0\n"
    )
    assert prepare.openmp_runtimes(str(maps)) == sorted(names[:3])


@pytest.mark.parametrize(
    "before, after, preset, expected",
    [
        ([], ["/usr/lib/libgomp.so.1"], False, None),
        (["/torch/libgomp-a.so"], ["/torch/libgomp-a.so", "/l/libgomp.so.1"], True, "another"),
        (["/l/libgomp.so.1"], ["/l/libgomp.so.1"], False, "too early"),
        (["/l/libgomp.so.1"], ["/l/libgomp.so.1"], True, None),
    ],
)
def test_openmp_warnings(caplog, before, after, preset, expected):
    with caplog.at_level(logging.WARNING, logger="tvm.relay.collage"):
        prepare.warn_about_openmp(before, after, preset)
    assert [record.name for record in caplog.records] == ["tvm.relay.collage"] * bool(expected)
    assert expected is None or expected in caplog.text


def test_ctrl_c_ends_a_process_without_standard_error():
    code = "import os, tvm_collage_hook as hook; os.close(2); hook.end_on_interrupt(2, None)"
    assert run_python("-c", code).returncode == 130
