# SPDX-License-Identifier: Apache-2.0
"""Installing: lock files, what a host must have, libraries, a wheel put in and taken out again."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tvm_collage
from check_sources import dialect_problems, lost_tests, problems
from tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = sorted(ROOT.glob("requirements*.txt"))


def run(*command: object, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def pins(text: str) -> dict[str, str]:
    """Return the version by normalised name of each line ``name==version``."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def locked() -> dict[str, str]:
    return pins("\n".join(path.read_text() for path in LOCKS))


def test_every_requirement_of_the_project_is_pinned_and_locked_at_that_version():
    project = PROJECT["project"]
    direct = [*project["dependencies"], *PROJECT["build-system"]["requires"]]
    for extra in project["optional-dependencies"].values():
        direct += extra
    assert all("==" in line for line in direct)
    wanted = pins("\n".join(direct))
    assert wanted.items() <= locked().items()


def test_build_requirements_stand_twice_with_the_same_versions():
    in_file = pins((ROOT / "requirements-build.in").read_text())
    assert in_file == pins("\n".join(PROJECT["build-system"]["requires"]))


def test_lock_files_agree_with_each_other():
    merged = locked()
    for path in LOCKS:
        assert pins(path.read_text()).items() <= merged.items(), path


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_lock_file_has_hashes_and_names_no_index(path):
    text = path.read_text()
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert entries
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text
    assert "--index" not in text and "--find-links" not in text


def test_versions_agree():
    cmake = (ROOT / "tvm" / "CMakeLists.txt").read_text()
    assert PROJECT["project"]["version"] == tvm_collage.__version__
    assert f"VERSION {tvm_collage.__version__} " in cmake
    assert f"COLLAGE_BASE_TVM_VERSION {tvm_collage.BASE_TVM_VERSION}" in cmake
    assert tvm_collage.BASE_TVM_REQUIREMENT in PROJECT["project"]["dependencies"]


def fake_python(folder: Path, version: str) -> Path:
    """Write a command that passes for a Python of some version."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    return path


def complaint(*arguments: object) -> str:
    """Return the only line that check_host.sh prints when it refuses."""
    done = run("tools/check_host.sh", *arguments)
    assert done.returncode == 1
    lines = (done.stdout + done.stderr).splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_host_with_all_it_needs_is_accepted():
    done = run("tools/check_host.sh", sys.executable, "g++")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_wrong_python_is_one_clear_line(tmp_path):
    line = complaint(fake_python(tmp_path, "3.12.1"), "g++")
    assert "needs Python 3.11" in line and "is 3.12.1" in line and "make PYTHON=" in line


def test_missing_python_is_one_clear_line():
    line = complaint("/nowhere/python3.11", "g++")
    assert "no Python at '/nowhere/python3.11'" in line and "install Python 3.11" in line


@pytest.mark.parametrize("compiler", ["/nowhere/g++", "false", ""])
def test_missing_compiler_is_one_clear_line(compiler):
    line = complaint(sys.executable, compiler)
    assert f"no C++17 compiler at '{compiler}'" in line and "install g++" in line


def test_make_stops_at_the_clear_line(tmp_path):
    venv = tmp_path / "venv"
    python = fake_python(tmp_path, "3.12.1")
    done = run("make", "--no-print-directory", "build", f"PYTHON={python}", f"VENV={venv}")
    assert done.returncode != 0
    assert done.stderr.splitlines()[0].startswith("tvm-collage: needs Python 3.11")
    assert not venv.exists()


def test_cmake_without_compiler_names_what_to_install(tmp_path):
    done = run(
        Path(sys.executable).with_name("cmake"),
        *("-S", "tvm", "-B", tmp_path, "-G", "Ninja"),
        f"-DCMAKE_MAKE_PROGRAM={Path(sys.executable).with_name('ninja')}",
        CXX="/nowhere/g++",
    )
    assert done.returncode != 0
    assert "no C++ compiler" in done.stderr and "install g++" in done.stderr


def commands(build: Path, compiler: Path) -> dict[str, str]:
    """Return the command that compiles each source, by its path in tvm/src, for a compiler which
    passes everything on to g++."""
    compiler.write_text('#!/bin/sh\nexec g++ "$@"\n')
    compiler.chmod(0o755)
    tools = Path(sys.executable).parent
    done = run(
        *(tools / "cmake", "-S", "tvm", "-B", build, "-G", "Ninja"),
        *(f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}", f"-DCMAKE_CXX_COMPILER={compiler}"),
        PATH=f"{tools}:{os.environ['PATH']}",
    )
    assert done.returncode == 0, done.stderr
    entries = json.loads((build / "compile_commands.json").read_text())
    source = ROOT / "tvm" / "src"
    return {
        str(Path(entry["file"]).relative_to(source)): entry["command"]
        for entry in entries
        if Path(entry["file"]).is_relative_to(source)
    }


def test_headers_are_precompiled_for_files_that_have_no_flags_of_their_own(tmp_path):
    found = commands(tmp_path, tmp_path / "compiler")
    reading = {path for path, command in found.items() if "cmake_pch.hxx" in command}
    assert "relay/collage/plan/plan.cc" in reading and "relay/collage/relay/rewrite.cc" in reading
    vectors = {path for path, command in found.items() if "-mavx2" in command}
    kernels = "runtime/contrib/winograd/kernel_avx2.cc", "runtime/contrib/winograd/kernel_avx512.cc"
    assert vectors == set(kernels)
    plain = {path for path in found.keys() - reading if not path.startswith("runtime/thread_pool/")}
    assert plain == set(kernels)


def test_no_header_is_precompiled_where_a_cache_keeps_the_objects(tmp_path):
    found = commands(tmp_path, tmp_path / "ccache")
    assert found
    assert not [path for path, command in found.items() if "cmake_pch.hxx" in command]


def test_what_succeeds_is_quiet_and_what_fails_shows_everything():
    say = "echo out; echo err >&2; exit"
    done = run("tools/quietly.sh", "sh", "-c", f"{say} 0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = run("tools/quietly.sh", "sh", "-c", f"{say} 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "out\nerr\n")


def test_make_runs_pip_quietly(tmp_path):
    make = ("make", "--dry-run", "--always-make", f"VENV={tmp_path}", f"PYTHON={sys.executable}")
    done = run(*make, "build", "zoo-environment")
    assert done.returncode == 0, done.stderr
    calls = [line for line in done.stdout.splitlines() if "-m pip" in line]
    assert len(calls) == 3
    assert all("tools/quietly.sh" in line for line in calls)


@pytest.mark.parametrize(("goals", "count"), [((), 1), (("build",), 1), (("demo",), 0)])
def test_a_build_that_was_asked_for_ends_with_what_to_do_next(tmp_path, goals, count):
    done = run("make", "--dry-run", f"VENV={tmp_path}", f"PYTHON={sys.executable}", *goals)
    assert done.returncode == 0, done.stderr
    said = f"Next: `make demo`, or `source {tmp_path}/bin/activate` and `collage --help`."
    assert done.stdout.count(said) == count


@pytest.mark.parametrize(
    "name, file, words",
    [
        ("no-such-distribution", "x.h", "no-such-distribution is not installed in"),
        ("numpy", "no/such/file.h", "does not contain no/such/file.h"),
    ],
)
def test_locating_a_header_fails_clearly(name, file, words):
    done = run(sys.executable, "tvm/cmake/base_distribution.py", name, file)
    assert done.returncode == 1
    assert words in done.stderr and len(done.stderr.splitlines()) == 1


def test_locating_the_base_packages_headers():
    name = "xtc-tvm-python-bindings"
    file = "tvm/include/tvm/runtime/registry.h"
    done = run(sys.executable, "tvm/cmake/base_distribution.py", name, file)
    version, directory = done.stdout.strip().split(";")
    assert f"{name}=={version}" == tvm_collage.BASE_TVM_REQUIREMENT
    assert Path(directory, file).is_file()


@pytest.mark.parametrize("name", ["tvm_collage_pool", "tvm_collage_runtime", "tvm_collage"])
def test_library_is_installed_and_links_neither_tvm_nor_onednn(name):
    path = tvm_collage.library_path(name)
    assert path is not None, f"lib{name}.so is missing: make build"
    section = read_elf("--dynamic", path)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", section)
    assert "libc.so.6" in needed
    assert not [library for library in needed if library.startswith(("libtvm", "libdnnl"))]
    # Folders are looked through by open_library.cc, this environment's alone.
    assert "$ORIGIN/.." not in section


def read_elf(section: str, path: Path | str) -> str:
    if shutil.which("readelf") is None:
        pytest.skip("readelf is missing")
    return run("readelf", section, "--wide", path).stdout


def test_source_check_names_file_and_fault(tmp_path):
    bad = tmp_path / "bad.cc"
    bad.write_text("int x; \n" * 1001)
    found = problems(bad)
    assert "first line must be '// SPDX" in found[0]
    assert "1001 lines" in found[1] and "trailing blank" in found[2]
    good = tmp_path / "good.sh"
    good.write_text("#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n")
    assert problems(good) == []


LICENSE = "// SPDX-License-Identifier: Apache-2.0\n"
SUMMARY = "// The sum of numbers.\n// Test: sum_test.cc.\n"
SPACE = "namespace tvm::collage {\nnamespace {\n}  // namespace\n}  // namespace tvm::collage\n"


def test_our_dialect_of_cpp_has_no_problem(tmp_path):
    (tmp_path / "src").mkdir()
    for name in ("sum.h", "main.cc"):
        (tmp_path / "src" / name).write_text(f"{LICENSE}{SUMMARY}{SPACE}")
    source = tmp_path / "src" / "sum.cc"
    source.write_text(f'{LICENSE}#include "sum.h"\n{SPACE}')
    test = tmp_path / "sum_test.cc"
    test.write_text(f"{LICENSE}// Sums by hand.\n{SPACE}")
    files = (tmp_path / "src" / "sum.h", tmp_path / "src" / "main.cc", source, test)
    assert [dialect_problems(file) for file in files] == [[], [], [], []]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"/*! \\file sum.h */\n{SPACE}", ":2: a comment is lines of //"),
        (f"{SUMMARY}/** The sum. */\n", ":4: a comment is lines of //"),
        (f"{SUMMARY}// \\param a a number\n", ":4: a comment is lines of //"),
        (f"{SUMMARY}int Sum();  ///< of none\n", ":4: a comment is lines of //"),
        (f"{SUMMARY}namespace tvm {{\nnamespace collage {{\n}}\n}}\n", ":5: write nested"),
        (SPACE, ":2: a header of // lines must say"),
        (f"// The sum of numbers.\n{SPACE}", ":2: its header must name its test"),
    ],
)
def test_another_dialect_of_cpp_is_named(text, problem, tmp_path):
    (tmp_path / "src").mkdir()
    file = tmp_path / "src" / "sum.h"
    file.write_text(LICENSE + text)
    assert f"{file}{problem}" in "\n".join(dialect_problems(file))


# Measures and saves the placement, or replays a saved one; prints what the net gives.
BUILD_WITH_COLLAGE = """
import os, sys
import numpy as np, tvm
from tvm import relay
from tvm.relay import collage

file = sys.argv[1]
known = os.path.exists(file)
options = {"enable_collage": True, "measure_seconds": 0.02, "guard_rounds": 3, "guard_seconds": 0.1}
options["placement"] = file if known else ""
x = relay.var("x", shape=(2, 16))
weight = relay.const(np.full((16, 16), 0.01, "float32"))
mod = tvm.IRModule.from_expr(relay.tanh(relay.nn.relu(relay.nn.dense(x, weight))))
config = {f"relay.collage.{name}": value for name, value in options.items()}
with tvm.transform.PassContext(opt_level=3, config=config):
    lib = relay.build(mod, target=[collage.host_target(), tvm.target.Target("cblas")])
if not known:
    lib.collage.save_placement(file)
    lib.collage.save_html(file + ".html")
(output,) = lib.collage.runner()(x=np.ones((2, 16), "float32"))
print(output[0, 0])
"""


def test_the_preset_configures_and_each_build_preset_has_one(tmp_path):
    presets = json.loads((ROOT / "tvm/CMakePresets.json").read_text())
    names = [preset["name"] for preset in presets["configurePresets"]]
    assert names == [preset["configurePreset"] for preset in presets["buildPresets"]]
    folder = Path(sys.executable).parent
    path = f"{folder}:{os.environ['PATH']}"
    done = run(folder / "cmake", "-S", "tvm", "--preset", "cpu", "-B", tmp_path, PATH=path)
    assert done.returncode == 0, done.stderr
    cache = (tmp_path / "CMakeCache.txt").read_text()
    assert "CMAKE_BUILD_TYPE:STRING=Release" in cache and "CMAKE_GENERATOR:INTERNAL=Ninja" in cache


def test_the_container_installs_extras_that_there_are():
    text = (ROOT / "Containerfile").read_text()
    extras = re.findall(r"EXTRAS=([\w,]+)", text)
    known = PROJECT["project"]["optional-dependencies"]
    assert extras and all(name in known for line in extras for name in line.split(","))
    assert re.search(r"^FROM \S+/python:3\.11-", text, re.M)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "build"} <= set(ignored)


@pytest.mark.slow("pip makes a wheel and a virtual environment, in which a net is measured")
def test_wheel_installs_alone_and_uninstall_leaves_stock_tvm(tmp_path):
    """Make a wheel around the libraries that are already built, install, use and remove it."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    libraries = Path(tvm_collage.library_path("tvm_collage")).parent
    done = run("tools/make_wheel.sh", libraries, tmp_path, PATH=path)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert done.stdout == f"{wheel}\n"
    tag = re.fullmatch(r"tvm_collage-[^-]+-py3-none-manylinux_2_(\d+)_x86_64.*\.whl", wheel.name)
    assert tag
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".so" in name]
    ours = sorted(file.name for file in libraries.glob("*.so"))
    assert sorted(names) == [f"tvm_collage/lib/{name}" for name in ours]
    wanted = [
        re.findall(r"GLIBC_2\.(\d+)", read_elf("--version-info", libraries / name)) for name in ours
    ]
    assert all(int(tag[1]) >= int(minor) for minors in wanted for minor in minors)

    python = tmp_path / "venv" / "bin" / "python"
    assert run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv").returncode == 0
    site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    # The base packages come from this environment; a plain path line runs none of its .pth files.
    (site / "zz_base.pth").write_text(sysconfig.get_path("platlib") + "\n")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    into = (*pip, "--python", python)
    no_compiler = {"PATH": str(python.parent), "CXX": "", "CC": ""}
    done = run(*into, "install", "--no-deps", "--no-index", wheel, **no_compiler)
    assert done.returncode == 0, done.stderr

    code = "import tvm, os; from tvm.relay import collage; print(os.path.dirname(collage.__file__))"
    ours = run(python, "-c", code)
    assert ours.stdout.strip() == str(site / "tvm_collage" / "collage"), ours.stderr
    assert (site / "tvm_collage" / "lib" / "libtvm_collage.so").is_file()
    command = run(python.with_name("collage"), "--version")
    assert command.stdout.strip() == tvm_collage.__version__, command.stderr
    # A compiler links what is measured; what was decided is built without one.
    for variables in ({}, no_compiler):
        done = run(python, "-c", BUILD_WITH_COLLAGE, tmp_path / "placement.json", **variables)
        assert done.returncode == 0, done.stderr
        assert float(done.stdout.splitlines()[-1]) == pytest.approx(np.tanh(0.16), rel=1e-5)
    assert "class GraphView" in (tmp_path / "placement.json.html").read_text()

    assert run(*into, "uninstall", "--yes", "tvm-collage").returncode == 0
    stock = run(python, "-c", code)
    assert stock.stdout.strip().endswith("/tvm/relay/collage"), stock.stderr
    assert str(ROOT) not in stock.stdout or "site-packages/tvm/relay" in stock.stdout


def test_source_check_names_tests_that_are_not_there(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    file = tmp_path / "file.py"
    file.write_text("# Test: costs/test_cost.py, bench/test_zoo.py, tests/cpp/hash_test.cc.\n")
    assert lost_tests(file) == []
    file.write_text("# Test: costs/test_zoo.py, test_cost.py. Test: tests/cpp/lost_test.cc.\n")
    lost = [line.rpartition(" ")[2] for line in lost_tests(file)]
    assert lost == ["costs/test_zoo.py", "test_cost.py", "tests/cpp/lost_test.cc"]
