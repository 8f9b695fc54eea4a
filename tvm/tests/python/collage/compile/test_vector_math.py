# SPDX-License-Identifier: Apache-2.0
"""Vector forms of exp, tanh and their like in our builds: right for all floats, and ours alone."""

import math
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tvm
from math_functions import FUNCTIONS, all_floats, ulps_off
from onednn_nets import run
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.compile import build_library, build_vm
from tvm.relay.collage.compile.library import stock_build
from tvm.relay.collage.measure import candidate_module, context_to_json
from tvm.relay.collage.measure.builder import build_module
from tvm.runtime.vm import VirtualMachine

SOME = [FUNCTIONS["exp"], FUNCTIONS["erf"]]
UNARY = [function for function in FUNCTIONS.values() if function.arguments == 1]
OPTION = "relay.collage.vector_math"
# Names that the code of kernels has for the C library's functions, float's or double's.
CALLS = re.compile(r"call\S*\s+(?:exp|exp2|tanh|erf|log|log2|log10|pow|exp10)f?(?:@PLT)?\s*$", re.M)
# With fused products and without, of 4, 8 and 16 lanes.
TARGETS = {"llvm": "sse2", "llvm -mcpu=haswell": "avx2", "llvm -mcpu=skylake-avx512": "avx512bw"}
COUNT = 1 << 16
# The most that was seen in a scan of each 16th float (docs/accuracy.md), and a little.
MOST_ULPS = {
    "exp": 1.1,
    "tanh": 1.4,
    "erf": 1.2,
    "sigmoid": 2.6,
    "log": 0.9,
    "log2": 1.9,
    "log10": 2.1,
    "pow": 0.6,
}


def target_of(text):
    flag = TARGETS[text]
    if flag not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip(f"this CPU has no {flag}")
    return text


def module_of(functions, shape=(COUNT,), dtype="float32"):
    """A module of all of them on the same inputs; loops are vectorised."""
    names = "xy"[: max(function.arguments for function in functions)]
    variables = [relay.var(name, shape=shape, dtype=dtype) for name in names]
    results = [function.relay(*variables[: function.arguments]) for function in functions]
    return tvm.IRModule.from_expr(relay.Function(variables, relay.Tuple(results)))


def code_of(library):
    return library.lib.get_source("asm")


def boundaries():
    """Every exponent with mantissas at its ends and between, and where the forms change."""
    exponents = np.arange(256, dtype="uint32")[:, None] << 23
    mantissas = np.array([0, 1, 2, 0x3504F2, 0x3504F3, 0x3504F4, 0x400000, 0x7FFFFE, 0x7FFFFF])
    bits = (exponents | mantissas.astype("uint32")).ravel()
    size = bits.view("float32")
    edges = np.array([0.625, 1, 4, 9, 10, 87.3, 88.7, 88.72284, 89, 103.3, 103.97, 104], "float32")
    near = [np.nextafter(edges, np.float32(way)) for way in (-np.inf, np.inf)]
    size = np.concatenate([size, edges, *near])
    return np.concatenate([size, -size])


@pytest.mark.parametrize("target", TARGETS)
def test_right_to_few_ulps_for_all_floats(target):
    library = build_library(module_of(UNARY), target_of(target))
    assert not CALLS.search(code_of(library))
    [sampled] = all_floats(every=2**16, chunk=COUNT, offset=12345)
    for x in (sampled, np.resize(boundaries(), COUNT)):
        for function, got in zip(UNARY, run(library, {"x": x}), strict=True):
            off = ulps_off(got, function.exact(x))
            worst = int(off.argmax())
            assert off[worst] <= MOST_ULPS[function.name], (function.name, x[worst], got[worst])


SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, -1.0]
E_45 = float(np.float32(1e-45))
WANTED = {
    "exp": [1, 1, math.inf, 0, math.nan, 1, 1, 1 / math.e],
    "tanh": [0.0, -0.0, 1, -1, math.nan, E_45, -E_45, math.tanh(-1)],
    "erf": [0.0, -0.0, 1, -1, math.nan, E_45, -E_45, math.erf(-1)],
    "sigmoid": [0.5, 0.5, 1, 0, math.nan, 0.5, 0.5, 1 / (1 + math.e)],
    "log": [-math.inf, -math.inf, math.inf, math.nan, math.nan, math.log(E_45), math.nan, math.nan],
    "log2": [-math.inf, -math.inf, math.inf, math.nan, math.nan, -149, math.nan, math.nan],
    "log10": [
        *[-math.inf, -math.inf, math.inf, math.nan, math.nan, math.log10(E_45), math.nan, math.nan]
    ],
}


def test_zeros_infinities_nan_and_the_smallest_number():
    library = build_library(module_of(UNARY, (len(SPECIAL),)), collage.host_target())
    found = run(library, {"x": np.array(SPECIAL, "float32")})
    for function, got in zip(UNARY, found, strict=True):
        wanted = np.array(WANTED[function.name], "float32")
        np.testing.assert_allclose(got, wanted, rtol=3e-7, atol=0, err_msg=function.name)
        is_number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got)[is_number], np.signbit(wanted)[is_number])


# Large odd and even numbers, halves, the neighbours of 1.
BASES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1, -1, 2, -2, 3, 0.5, -0.5, 1e-45, -1e-45, 3e38]
EXPONENTS = [*BASES, -3, 1.5, -1.5, 16777215, -16777215, 16777216, 33554432, 8388607.5, 1e-30]
NEAR_ONE = [float(np.nextafter(np.float32(1), np.float32(way))) for way in (0, 2)]


def c_pow(x, y):
    """C's pow, for whose errors Python raises."""
    try:
        result = math.pow(x, y)
    except OverflowError:
        result = math.inf if x > 0 or y % 2 != 1 else -math.inf
    except ValueError:
        is_odd = math.isfinite(y) and y % 2 == 1
        result = math.copysign(math.inf, x if is_odd else 1.0) if x == 0 else math.nan
    return result


@pytest.mark.parametrize("target", TARGETS)
def test_pow_is_that_of_c(target):
    pairs = [(x, y) for x in [*BASES, *NEAR_ONE] for y in [*EXPONENTS, *NEAR_ONE]]
    pairs = np.array(pairs, "float32")
    rng = np.random.default_rng(0)
    [some] = all_floats(every=2**16, chunk=COUNT, offset=54321)
    ys = (rng.uniform(-8, 8, COUNT), rng.integers(-40, 40, COUNT), rng.permutation(some))
    library = build_library(module_of([FUNCTIONS["pow"]]), target_of(target))
    assert not CALLS.search(code_of(library))
    for x, y in [np.resize(pairs.T, (2, COUNT)), *((some, y.astype("float32")) for y in ys)]:
        [got] = run(library, {"x": x, "y": y})
        wanted = np.array([c_pow(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)])
        off = ulps_off(got, wanted)
        worst = int(off.argmax())
        assert off[worst] <= MOST_ULPS["pow"], (x[worst], y[worst], got[worst], wanted[worst])
        is_number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got)[is_number], np.signbit(wanted)[is_number])


def test_a_known_exponent_takes_no_pow():
    x, exponents = relay.var("x", shape=(COUNT,)), [1, 2, 3, -1, 0.5, -0.5]
    powers = relay.Tuple([relay.power(x, relay.const(each, "float32")) for each in exponents])
    library = build_library(tvm.IRModule.from_expr(relay.Function([x], powers)), "llvm")
    code = code_of(library)
    assert not CALLS.search(code) and "cvtps2pd" not in code, "of float64, as the pow of any two"
    [some] = all_floats(every=2**16, chunk=COUNT, offset=999)
    some[: len(BASES)] = BASES
    for exponent, got in zip(exponents, run(library, {"x": some}), strict=True):
        wanted = np.array([c_pow(a, exponent) for a in some.tolist()])
        off = ulps_off(got, wanted)
        assert off.max() <= 1.5, (exponent, some[off.argmax()])
        is_number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got)[is_number], np.signbit(wanted)[is_number])


def test_float16_is_computed_in_float32_and_float64_by_the_c_library():
    x = np.arange(2**16, dtype="uint32").astype("uint16").view("float16")
    library = build_library(module_of(UNARY, dtype="float16"), collage.host_target())
    assert not CALLS.search(code_of(library))
    for function, got in zip(UNARY, run(library, {"x": x}), strict=True):
        with np.errstate(all="ignore"):
            wanted = function.exact(x.astype("float32")).astype("float16")
            steps = np.abs(got.view("int16").astype(int) - wanted.view("int16").astype(int))
        assert (steps <= 1)[~(np.isnan(got) & np.isnan(wanted))].all(), function.name
    library = build_library(module_of([FUNCTIONS["exp"]], dtype="float64"), "llvm")
    assert "exp@PLT" in code_of(library)


def net():
    """What nets have: exp in a softmax and behind a guard of padding, erf behind a convolution."""
    x = relay.var("x", shape=(1, 8, 12, 12))
    weight = relay.const(np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype("float32"))
    y = relay.nn.conv2d(x, weight, padding=(1, 1), channels=8, kernel_size=(3, 3))
    y = y * (relay.erf(y * relay.const(0.70710678)) + relay.const(1.0))
    y = relay.nn.pad(relay.sigmoid(y), ((0, 0), (0, 0), (1, 1), (1, 1)))
    mean = relay.mean(relay.power(y, relay.const(2.0)), axis=1, keepdims=True)
    y = relay.nn.softmax(relay.tanh(relay.log(y + relay.const(1.0))) / relay.sqrt(mean), axis=-1)
    return tvm.IRModule.from_expr(relay.Function([x], y))


def test_a_net_is_the_same_without_it_but_for_roundings():
    x = {"x": np.random.default_rng(1).standard_normal((1, 8, 12, 12)).astype("float32")}
    ours = build_library(net(), collage.host_target())
    with tvm.transform.PassContext(opt_level=3, config={OPTION: False}):
        without = build_library(net(), collage.host_target())
    assert not CALLS.search(code_of(ours))
    assert {"expf", "erff", "logf"} <= set(re.findall(r"\w+f(?=@PLT)", code_of(without)))
    [got], [wanted] = run(ours, x), run(without, x)
    np.testing.assert_allclose(got, wanted, rtol=2e-5)
    machine = VirtualMachine(build_vm(net(), collage.host_target()), tvm.cpu())
    np.testing.assert_array_equal(machine.invoke("main", **x).numpy(), got)


def test_stock_builds_at_the_same_time_are_stock():
    mod = module_of(SOME)
    with tvm.transform.PassContext(opt_level=3):
        before = code_of(stock_build()(mod, target="llvm"))

    def build(kind):
        with tvm.transform.PassContext(opt_level=3, config={OPTION: kind == "ours"}):
            make = stock_build() if kind == "stock" else build_library
            return code_of(make(mod, target="llvm"))

    kinds = ["ours", "off", "stock"] * 2
    with ThreadPoolExecutor(len(kinds)) as pool:
        codes = list(pool.map(build, kinds))
    assert CALLS.search(before)
    for kind, code in zip(kinds, codes, strict=True):
        assert (code == before) == (kind != "ours"), kind
        assert bool(CALLS.search(code)) == (kind != "ours"), kind


@pytest.mark.parametrize("is_on", [True, False])
def test_a_worker_builds_what_is_deployed(is_on):
    with tvm.transform.PassContext(opt_level=3, config={OPTION: is_on}) as context:
        deployed = code_of(build_library(module_of(SOME), "llvm"))
        fields, _ = context_to_json(context)
    assert fields == ({} if is_on else {"config": {OPTION: False}})
    options = {"opt_level": 3, **({"pass_context": fields} if fields else {})}
    candidate = candidate_module(module_of(SOME), "tvm", "llvm", options)
    assert (OPTION in candidate.key()) == (not is_on), "a cost of one does not serve the other"
    builder = "tvm.relay.collage.compile.library:build_library"
    measured = build_module(candidate.instantiate(), candidate, builder)
    assert code_of(measured) == deployed
