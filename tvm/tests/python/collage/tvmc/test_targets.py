# SPDX-License-Identifier: Apache-2.0
"""`tvmc compile --collage --target TEXT`: which targets of a text are backends, in any order."""

import json

import pytest
import tvm
from tvm.driver.tvmc import TVMCException
from tvm.driver.tvmc import target as tvmc_target
from tvm.relay import collage
from tvm.relay.collage.tvmc.compilation import Compilation, under_way
from tvm.relay.collage.tvmc.targets import split_target
from tvm.target import Target, TargetKind

SPLITS = {
    "llvm": ("llvm", []),
    "llvm,dnnl": ("llvm", ["dnnl"]),
    "dnnl,llvm": ("llvm", ["dnnl"]),
    " dnnl ,  cblas ,llvm ": ("llvm", ["dnnl", "cblas"]),
    "cblas, llvm -mcpu=znver4, dnnl -winograd=never": (
        "llvm -mcpu=znver4",
        ["cblas", "dnnl -winograd=never"],
    ),
    # A comma with nothing but text around it is part of a value, as stock tvmc has it.
    "dnnl, llvm -mcpu=a -mattr=-avx512vnni,+avx2": (
        "llvm -mcpu=a -mattr=-avx512vnni,+avx2",
        ["dnnl"],
    ),
    'llvm -mattr="+a, +b", dnnl': ('llvm -mattr="+a, +b"', ["dnnl"]),
    "llvm -libs=mkl,cblas": ("llvm -libs=mkl,cblas", []),
    # But an option of a backend ends where a target's name follows.
    "dnnl -winograd=never,cblas": ("HOST", ["dnnl -winograd=never", "cblas"]),
    "dnnl -winograd=never,llvm -mcpu=a,cblas -b=1,2,mkl,dnnl": (
        "llvm -mcpu=a,cblas -b=1,2,mkl,dnnl",
        ["dnnl -winograd=never"],
    ),
    "llvm, dnnl -winograd=never,mkl,cblas -b=1": (
        "llvm",
        ["dnnl -winograd=never", "mkl", "cblas -b=1"],
    ),
    "llvm, dnnl -winograd=never,cblsa": ("llvm", ["dnnl -winograd=never,cblsa"]),
    # What stands in quotes is of the value, wherever in it that is.
    """llvm, dnnl -a='b,mkl,c' -d="e",mkl""": ("llvm", ["""dnnl -a='b,mkl,c' -d="e\"""", "mkl"]),
    """llvm, dnnl -a=mkl,"mkl",'mkl',mkl""": ("llvm", ["""dnnl -a=mkl,"mkl",'mkl'""", "mkl"]),
    """llvm, dnnl -a="b,'mkl,c",mkl""": ("llvm", ["""dnnl -a="b,'mkl,c\"""", "mkl"]),
    "llvm -mattr=+a,dnnl, cblas": ("llvm -mattr=+a,dnnl", ["cblas"]),
    "mine -log=/tmp/a.log, llvm": ("llvm", ["mine -log=/tmp/a.log"]),
    # TVM's own composite targets, and two targets of TVM's, are for stock tvmc to take.
    "compute-library, dnnl, llvm": ("compute-library, llvm", ["dnnl"]),
    "cuda, dnnl, llvm": ("cuda, llvm", ["dnnl"]),
    '{"kind": "llvm"}': ('{"kind": "llvm"}', []),
    "": ("", []),
    ",": ("", []),
}


def test_single_quotes_are_none_of_a_value_that_they_keep_whole():
    targets = collage.targets.split_targets("llvm, dnnl -winograd='never',cblas", "--target")
    dnnl, cblas = collage.targets.parse_targets(targets).external
    assert (str(dnnl.attrs["winograd"]), cblas.kind.name) == ("never", "cblas")


@pytest.mark.parametrize("text", SPLITS)
def test_a_text_is_split(text):
    host, backends = SPLITS[text]
    host = host.replace("HOST", str(collage.host_target()))
    assert split_target(text) == (host, backends)


def test_a_text_without_a_host_is_for_this_cpu():
    host = str(collage.host_target())
    assert split_target("cblas, dnnl -winograd=never") == (host, ["cblas", "dnnl -winograd=never"])
    assert split_target("compute-library, dnnl") == (f"compute-library, {host}", ["dnnl"])
    with under_way(Compilation()) as compilation:
        target, _ = tvmc_target.target_from_cli("dnnl")
    assert str(target) == host and [each.kind.name for each in compilation.backends] == ["dnnl"]


def test_a_file_is_tvmcs(tmp_path):
    file = tmp_path / "dnnl"
    file.write_text("llvm")
    assert split_target(str(file)) == (str(file), [])


def test_a_compilation_has_the_backends_and_tvmc_the_rest():
    text = "dnnl -winograd=always, compute-library, cblas, llvm -mcpu=x86-64-v2"
    with under_way(Compilation()) as compilation:
        host, composite = tvmc_target.target_from_cli(text, {"llvm": {"num-cores": 2}})
    assert host.mcpu == "x86-64-v2" and host.attrs["num-cores"] == 2
    assert [each["name"] for each in composite] == ["compute-library"]
    assert [each.kind.name for each in compilation.backends] == ["dnnl", "cblas"]
    assert compilation.backends[0].attrs["winograd"] == "always"


@pytest.mark.parametrize(
    "text, error",
    [
        ("dnnl, dnl, llvm", "unknown backend or target kind 'dnl'"),
        ("dnnl -winograd=never, llvm, dnnl", "in the target list with different options"),
        ("dnnl -winograd=never,cblas,dnnl, llvm", "in the target list with different options"),
    ],
)
def test_errors_are_those_of_a_target_list(text, error):
    with under_way(Compilation()), pytest.raises(collage.CollageError, match=error):
        tvmc_target.target_from_cli(text)


@pytest.mark.parametrize("text", ["", ", ,", "llvm, llvm -mcpu=x86-64-v2"])
def test_no_host_or_two_are_errors_too(text):
    with under_way(Compilation()), pytest.raises((collage.CollageError, TVMCException)) as error:
        tvmc_target.target_from_cli(text)
    assert str(error.value).count("\n") == 0


def test_without_a_compilation_a_backend_is_no_target_of_tvmcs():
    _, composite = tvmc_target.target_from_cli("dnnl, llvm")
    assert [each["name"] for each in composite] == ["dnnl"]
    with pytest.raises(TVMCException, match="The last target needs to be a TVM target") as error:
        tvmc_target.target_from_cli("llvm, dnnl")
    assert "cblas" not in str(error.value)


def test_only_tvmc_sees_tvms_kinds_alone():
    assert not any("dnnl" in each["name"] for each in tvmc_target.parse_target("llvm"))
    assert "dnnl" in Target.list_kinds()
    assert "partition_rule" in TargetKind.options_from_name("llvm")
    stock = json.loads(tvm.get_global_func("collage.StockTargetKinds")())
    assert {kind["name"] for kind in stock} < set(Target.list_kinds())
