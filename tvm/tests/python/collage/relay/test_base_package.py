# SPDX-License-Identifier: Apache-2.0
"""The base TVM package has what the adapter leans on; one that has not is one clear line."""

import ctypes
import os
import shutil
import subprocess
import sys

import pytest
import tvm
import tvm_collage
from tvm._ffi import libinfo
from tvm.relay.collage.process_wide import native as _native

# What relay/base_package.h declares, as g++ mangles it.
DECLARED = {
    "ReflectionVTable::Global": "_ZN3tvm16ReflectionVTable6GlobalEv",
    "ReflectionVTable::VisitAttrs": (
        "_ZNK3tvm16ReflectionVTable10VisitAttrsEPNS_7runtime6ObjectEPNS_11AttrVisitorE"
    ),
    "TargetKind::Get": "_ZN3tvm10TargetKind3GetERKNS_7runtime6StringE",
    "TargetKindRegEntry::RegisterOrGet": (
        "_ZN3tvm18TargetKindRegEntry13RegisterOrGetERKNS_7runtime6StringE"
    ),
    "runtime::ConstLoaderModuleCreate": (
        "_ZN3tvm7runtime23ConstLoaderModuleCreateERKSt13unordered_mapINSt7__cxx1112basic_string"
        "IcSt11char_traitsIcESaIcEEENS0_7NDArrayESt4hashIS7_ESt8equal_toIS7_ESaISt4pairIKS7_S8_EEE"
        "RKS1_IS7_St6vectorIS7_SaIS7_EESA_SC_SaISD_ISE_SM_EEE"
    ),
    "TargetKindRegEntry::UpdateAttr": (
        "_ZN3tvm18TargetKindRegEntry10UpdateAttrERKNS_7runtime6StringENS1_11TVMRetValueEi"
    ),
}
IS_FOR = (
    f"tvm-collage {tvm_collage.__version__} does not fit the installed TVM "
    f"{tvm_collage.BASE_TVM_VERSION} "
)
WHAT_TO_DO = (
    f"run `pip install {tvm_collage.BASE_TVM_REQUIREMENT}` and build again, "
    "or set COLLAGE_DISABLE=1 to use TVM without Collage"
)


@pytest.fixture(scope="module")
def libtvm():
    [path] = [path for path in libinfo.find_lib_path("libtvm.so") if path.endswith("libtvm.so")]
    return ctypes.CDLL(path)


def test_version_is_the_pinned_one():
    assert tvm.__version__ == tvm_collage.BASE_TVM_VERSION


@pytest.mark.parametrize("name", DECLARED)
def test_symbols_that_no_header_of_the_package_declares_are_exported(libtvm, name):
    assert hasattr(libtvm, DECLARED[name]), f"this libtvm.so does not export tvm::{name}"


def test_config_option_registration_is_exported(libtvm):
    names = undefined_symbols(tvm_collage.library_path("tvm_collage"))
    [symbol] = [name for name in names if "RegisterConfigOption" in name]
    assert hasattr(libtvm, symbol)


def test_every_symbol_that_our_library_leaves_to_tvm_is_in_libtvm(libtvm):
    names = undefined_symbols(tvm_collage.library_path("tvm_collage"))
    wanted = [name for name in names if name.startswith(("_ZN3tvm", "_ZNK3tvm", "TVM"))]
    assert len(wanted) > 20
    assert [name for name in wanted if not hasattr(libtvm, name)] == []


def undefined_symbols(path):
    if shutil.which("nm") is None:
        pytest.skip("needs nm of binutils to list the library's symbols")
    lines = subprocess.run(
        ["nm", "-D", "--undefined-only", path], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [line.split()[-1].split("@")[0] for line in lines]


def exported_symbols(path):
    """Names of what a library defines for others."""
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {line.split()[-1] for line in lines}


def test_only_what_plugins_need_is_exported():
    if shutil.which("nm") is None:
        pytest.skip("needs nm of binutils to list the library's symbols")
    ours = {
        name
        for name in exported_symbols(tvm_collage.library_path("tvm_collage"))
        if "3tvm7collage" in name
    }
    assert any("PartitionRule" in name for name in ours)
    # Plugins see graph/, match/ and rules/, which know nothing of TVM; all else is hidden.
    assert [name for name in ours if "3tvm7runtime" in name] == []
    assert ours.isdisjoint(exported_symbols(tvm._ffi.libinfo.find_lib_path()[0]))


def test_init_twice_is_harmless():
    before = set(tvm.transform.PassContext.list_configs())
    tvm.get_global_func("collage.Init")()
    _native.load()
    assert set(tvm.transform.PassContext.list_configs()) == before


def test_a_library_that_was_not_built_is_one_clear_line(monkeypatch):
    monkeypatch.setattr(tvm_collage, "library_directories", lambda: ["/a/lib", "/b/lib"])
    with pytest.raises(ImportError) as caught:
        _native.load()
    assert str(caught.value) == (
        "libtvm_collage_runtime.so is not in /a/lib, /b/lib: run `make build` or `pip install .` "
        "in tvm-collage's tree, name its folder in TVM_COLLAGE_LIBRARY_PATH, "
        "or set COLLAGE_DISABLE=1 to use TVM without Collage"
    )


def test_a_base_package_without_a_global_function_is_one_clear_line(monkeypatch):
    def without(name):
        def init():
            raise tvm.TVMError(
                "Traceback (most recent call last):\n  0: a C++ frame\n"
                "InternalError: the base TVM package has no global function relay.ir.Call\n"
            )

        return init

    monkeypatch.setattr(_native, "get_global_func", without)
    with pytest.raises(ImportError) as caught:
        _native.load()
    assert str(caught.value) == (
        f"{IS_FOR}(InternalError: the base TVM package has no global function relay.ir.Call): "
        f"{WHAT_TO_DO}"
    )


def test_a_library_with_symbols_that_tvm_lacks_is_one_clear_line(tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("needs g++ to make such a library")
    source = tmp_path / "misfit.cc"
    source.write_text("namespace tvm { void Gone(); }\nvoid Use() { tvm::Gone(); }\n")
    library = tmp_path / "libtvm_collage.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True)
    folders = os.pathsep.join([str(tmp_path), *tvm_collage.library_directories()])
    done = subprocess.run(
        [sys.executable, "-c", "import tvm"],
        env={**os.environ, "TVM_COLLAGE_LIBRARY_PATH": folders},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: {IS_FOR}({library}: {library}: undefined symbol: _ZN3tvm4GoneEv): "
        f"{WHAT_TO_DO}"
    )
