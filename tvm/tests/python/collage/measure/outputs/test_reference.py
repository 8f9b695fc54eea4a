# SPDX-License-Identifier: Apache-2.0
"""What a candidate should compute, operator by operator, and how far others may be from it."""

import dataclasses
import json
import math
from importlib import import_module

import measure_fakes
import numpy as np
import pytest
import tvm
from candidate_nets import conv, external
from measure_fakes import HERE, fake_candidate, fake_options, measure
from relay_text import parse
from tvm import relay

reference = import_module("tvm.relay.collage.measure.outputs.reference")
rounding = import_module("tvm.relay.collage.costs.rounding")
tolerance = import_module("tvm.relay.collage.measure.outputs.tolerance")
inputs = import_module("tvm.relay.collage.candidate.inputs")
BUILDER = measure.MeasureOptions().builder


def typed(function):
    mod = function if isinstance(function, tvm.IRModule) else tvm.IRModule.from_expr(function)
    return relay.transform.InferType()(mod)


def verified(function):
    candidate = measure.candidate_module(function, "tvm", "llvm")
    return dataclasses.replace(candidate, verify=True)


def evaluate(mod, builder=BUILDER):
    values = list(inputs.random_inputs(inputs.describe_inputs(mod), 0).values())
    return values, reference.evaluate(mod, values, builder)


def executed(mod, values):
    """The same by TVM's own build of the whole module."""
    executor = relay.create_executor("graph", typed(mod), tvm.cpu(), "llvm")
    with tvm.transform.PassContext(opt_level=1):
        outputs = executor.evaluate()(*values)
    return [o.numpy() for o in (outputs if isinstance(outputs, list) else [outputs])]


def tuples():
    x = relay.var("x", shape=(4, 6))
    left, right = relay.split(x, 2, axis=1)
    return relay.Function([x], relay.Tuple([relay.concatenate([right, left], axis=1), left]))


def quantised():
    """Quantised as frontends write it, with a scale for each of 32 channels."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(2, 16), dtype="int8")
    weight = relay.const(rng.integers(-9, 9, (32, 16)).astype("int8"))
    scales = relay.const(rng.uniform(0.01, 0.02, 32).astype("float32"))
    zero, scale = relay.const(0, "int32"), relay.const(0.05, "float32")
    y = relay.qnn.op.dense(x, weight, zero, zero, scale, scales, units=32, out_dtype="int32")
    out_scale = relay.const(0.5, "float32")
    y = relay.qnn.op.requantize(y, scales, zero, out_scale, zero, axis=1, out_dtype="int8")
    return relay.Function([x], y)


def normalised():
    """batch_norm, whose variances must be positive, and a field of its tuple."""
    x, variance = relay.var("x", shape=(1, 4, 3, 3)), relay.var("v", shape=(4,))
    one = relay.const(np.ones(4, "float32"))
    return relay.Function([x, variance], relay.nn.batch_norm(x, one, one, one, variance)[0])


def halves():
    x = relay.var("x", shape=(8, 16), dtype="float16")
    return relay.Function([x], relay.nn.softmax(relay.multiply(x, relay.const(2.0, "float16"))))


def repeated():
    """One value that is used twice, also as an output, and an input that is one."""
    x = relay.var("x", shape=(3,))
    y = relay.exp(x)
    return relay.Function([x], relay.Tuple([relay.add(y, y), y, x]))


@pytest.mark.parametrize(
    "make, is_fixed",
    [(conv, False), (tuples, False), (quantised, True), (normalised, True), (halves, True),
     (repeated, False)],
)  # fmt: skip
def test_it_computes_what_tvm_builds_as_a_whole(make, is_fixed):
    """What is fixed cannot have 64 bits, and then stays as it is."""
    mod = typed(make())
    values, outputs = evaluate(mod)
    exact = reference.evaluate(mod, values, BUILDER, exact=True) if is_fixed else []
    for got, expected in zip(outputs, executed(mod, values), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)
    for wide, own in zip(exact, outputs if is_fixed else [], strict=True):
        assert wide.dtype == ("float64" if own.dtype == "float32" else own.dtype)
        np.testing.assert_allclose(wide, own, rtol=1e-3, atol=1e-3)


def test_external_code_is_not_asked():
    """Neither by functions inside main nor as global functions, nor by composites inside."""
    candidate = measure.candidate_module(external(compiler="nobody"), "nobody", "llvm")
    assert candidate.verify
    mod = candidate.instantiate()
    values, [output] = evaluate(mod)
    weight = mod["collage_nobody_0"].body.args[0].args[1].data.numpy()
    expected = np.maximum(np.exp(values[0]) @ weight.T, 0)
    plain = np.exp(np.maximum(values[0] @ weight.T, 0))
    assert not np.allclose(expected, plain)
    np.testing.assert_allclose(output, plain, rtol=1e-4)
    composite = typed(
        parse("""def @main(%x: $T) {
          %0 = fn (%a: $T, %b: $T, Composite="c") -> $T { subtract(%b, nn.relu(%a)) };
          %0(%x, %0(%x, %x))
        }""")
    )
    [x], [output] = evaluate(composite)
    np.testing.assert_allclose(output, x - 2 * np.maximum(x, 0), rtol=1e-5, atol=1e-6)


def test_equal_calls_are_built_once_whatever_candidate_they_are_in():
    """And what numpy computes is not built."""
    before = len(measure_fakes.built)
    kind = f"Tensor[({before + 1}, 5), float32]"  # no other run of this test has it in the cache
    for call in ("erf(%x)", "erf(nn.relu(%x))", "floor(erf(%x))"):
        evaluate(parse(f"def @main(%x: {kind}) {{ {call} }}"), f"{HERE}:noted_build")
    assert measure_fakes.built[before:] == ["erf", "floor"]


def test_what_has_no_reference_says_why():
    control = typed(
        parse("def @main(%x: $T, %c: bool) { if (%c) { nn.relu(%x) } else { abs(%x) } }")
    )
    with pytest.raises(measure.Unsupported, match="no reference for a If"):
        evaluate(control)
    with pytest.raises(measure.Unsupported, match="cannot build erf alone: ValueError: level 1"):
        evaluate(typed(parse("def @main(%x: $T) { erf(%x) }")), f"{HERE}:report_context")


def test_what_answers_otherwise_each_time_has_no_reference():
    with pytest.raises(measure.Unsupported, match="erf answers otherwise each time"):
        evaluate(typed(parse("def @main(%x: $T) { erf(%x) }")), f"{HERE}:fickle_build")


def mixed():
    """Operators of numpy's and of TVM's, a cast, whole numbers, and a tuple, in 32 bits."""
    x = relay.var("x", shape=(4, 6))
    rounded = relay.cast(relay.cast(x * relay.const(3.0), "int32"), "float32")
    left, right = relay.split(relay.erf(x) + rounded, 2, axis=1)
    scale = relay.const(np.linspace(1, 2, 12).reshape(4, 3).astype("float32"))
    return relay.Function([x], relay.Tuple([relay.nn.dense(left, right * scale), relay.argmax(x)]))


def test_exact_computes_with_64_bits_what_has_32():
    mod = typed(mixed())
    values, narrow = evaluate(mod)
    wide = reference.evaluate(mod, values, BUILDER, exact=True)
    assert [array.dtype for array in wide] == ["float64", narrow[1].dtype]
    assert (wide[1] == narrow[1]).all()
    x = values[0].astype("float64")
    whole = (values[0] * np.float32(3)).astype("int32")
    left, right = np.split(np.vectorize(math.erf)(x) + whole, 2, axis=1)
    expected = left @ (right * np.linspace(1, 2, 12).reshape(4, 3).astype("float32")).T
    np.testing.assert_allclose(wide[0], expected, rtol=1e-12)
    assert np.abs(narrow[0] - expected).max() > 1e-8, "else this shows nothing"


def test_what_watches_sees_each_value_and_may_give_another():
    x = relay.var("x", shape=(3,))
    mod = typed(relay.Function([x], relay.negative(relay.exp(x))))
    seen = []

    def watch(node, value):
        if isinstance(node, relay.Call):
            seen.append(node.op.name)
            return np.full(3, 7, "float32") if node.op.name == "exp" else value
        return value

    [output] = reference.evaluate(mod, [np.zeros(3, "float32")], BUILDER, watch=watch)
    assert seen == ["exp", "negative"] and (output == -7).all()


def test_a_tolerance_is_widened_by_rounding_and_by_nothing_else():
    narrow = rounding.Tolerance(1e-4, 1)
    b = np.ones(4, "float32")
    assert rounding.widened(narrow, [b * np.float32(1.001)], [b]).relative == pytest.approx(
        5e-4, 1e-3
    )
    assert rounding.widened(narrow, [b * np.float32(1.00001)], [b]) == narrow
    assert rounding.widened(narrow, [b * np.float32(1.5)], [b]) == narrow
    assert rounding.widened(narrow, [np.arange(3)], [np.arange(1, 4)]) == narrow
    assert rounding.widened(narrow, [np.zeros(0, "float32")], [np.zeros(0, "float32")]) == narrow


def test_a_reference_without_a_finite_number_is_none(tmp_path):
    x = relay.var("x", shape=(4,))
    candidate = measure.candidate_module(relay.Function([x], relay.log(x - x)), "tvm", "llvm")
    with pytest.raises(measure.Unsupported, match="no finite number"):
        reference.make_reference(candidate.to_json(), str(tmp_path / "r.npz"), BUILDER, 0)


def test_a_file_of_outputs_and_their_check(tmp_path):
    candidate = verified(conv())
    file = str(tmp_path / "r.npz")
    answer = json.loads(
        json.dumps(reference.make_reference(candidate.to_json(), file, BUILDER, seed=3))
    )
    with np.load(file) as arrays:
        outputs = [arrays[name] for name in arrays.files]
    reference.check_outputs(outputs, file, answer["tolerance"])
    outputs[0][0, 1, 2, 3] += 0.01
    with pytest.raises(measure.WrongResult, match=r"output 0 at \[0, 1, 2, 3\] is "):
        reference.check_outputs(outputs, file, answer["tolerance"])
    exact = reference.make_reference(candidate.to_json(), file, BUILDER, 3, exact=True)
    assert list(exact["tolerance"]) == answer["tolerance"], "where there is little rounding"
    with np.load(file) as arrays:
        assert arrays["output_0"].dtype == "float32"


def tensor(*shape):
    return relay.var("x", shape=shape)


IMAGE, FILTER = tensor(1, 4, 10, 10), tensor(8, 4, 3, 3)


@pytest.mark.parametrize(
    "call, length",
    [
        (relay.nn.conv2d(IMAGE, FILTER, kernel_size=3, channels=8), 4 * 9),
        (relay.nn.conv2d(IMAGE, FILTER), 4 * 9),
        (relay.nn.conv2d(IMAGE, tensor(4, 1, 3, 3), groups=4, channels=4, kernel_size=3), 9),
        (relay.nn.conv2d(tensor(1, 9, 9, 4), tensor(3, 3, 4, 8), data_layout="NHWC",
                         kernel_layout="HWIO", kernel_size=3), 4 * 9),
        (relay.nn.conv2d_transpose(IMAGE, tensor(4, 8, 2, 2), kernel_size=(2, 2), channels=8), 16),
        (relay.nn.dense(tensor(5, 16), tensor(7, 16)), 16),
        (relay.nn.matmul(tensor(16, 5), tensor(16, 7), transpose_a=True), 16),
        (relay.nn.batch_matmul(tensor(2, 5, 16), tensor(2, 7, 16)), 16),
        (relay.nn.softmax(tensor(5, 16)), 16),
        (relay.mean(tensor(5, 16), axis=[0]), 5),
        (relay.nn.avg_pool2d(IMAGE, pool_size=(2, 3)), 6),
        (relay.nn.global_avg_pool2d(IMAGE), 100),
        (relay.cumsum(tensor(6), axis=0), 6),
        (relay.exp(IMAGE), 1),
        (relay.concatenate([IMAGE, IMAGE], axis=1), 1),
        (relay.zeros((2, 3), "float32"), 1),
    ],
)  # fmt: skip
def test_terms_of_the_sum_behind_an_element(call, length):
    mod = typed(relay.Function(relay.analysis.free_vars(call), call))
    assert tolerance.reduction_length(mod["main"].body) == length


def tolerance_of(body, kind="float32"):
    x = relay.var("x", shape=(4, 600), dtype=kind)
    return tolerance.tolerance_of(typed(relay.Function([x], body(x))))


def test_the_tolerance_is_of_the_coarsest_type_and_the_longest_sum():
    table = rounding.RELATIVE

    def dense(x):
        return relay.nn.dense(x, x)

    def byte(x):
        return relay.cast(relay.clip(relay.round(x), -128, 127), "int8")

    for kind in ("float64", "float32", "float16"):
        assert tolerance_of(dense, kind).relative == table[kind][0]
        assert tolerance_of(lambda x: dense(x) + dense(x + x), kind).relative == table[kind][1]
        assert list(table[kind]) == sorted(table[kind])
    half = tolerance_of(lambda x: relay.cast(relay.exp(relay.cast(x, "float16")), "float32"))
    assert half.relative == table["float16"][0]
    assert tolerance_of(byte) == (table["8 bit"][0], 1)
    twice = tolerance_of(lambda x: byte(relay.cast(byte(x), "float32")))
    assert twice == (table["8 bit"][0], 2), "a step for each rounding"
    back = tolerance_of(lambda x: relay.cast(byte(x), "float32"))
    assert back.relative == table["8 bit"][0]
    assert tolerance_of(lambda x: x + x, "int8") == (0.0, 0)


def off(a, b, relative=1e-4, steps=1):
    return rounding.mismatch([a], [b], rounding.Tolerance(relative, steps))


def test_floats_may_differ_by_rounding_only():
    b = np.random.default_rng(0).standard_normal((20, 30)).astype("float32")
    b[0, 0] = 0.0
    assert off(b * np.float32(1 + 5e-5), b) == ""
    near_zero = b.copy()
    near_zero[0, 0] = 5e-5
    assert off(near_zero, b) == "", "beside numbers near 1 that is rounding"
    near_zero[0, 0] = 5e-3
    assert off(near_zero, b).startswith("output 0 at [0, 0] is 0.00")
    assert "off by 0.01" in off(b + np.float32(1e-2), b)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_no_number_where_the_reference_is_finite_is_wrong(bad):
    b = np.ones(7, "float32")
    a = b.copy()
    a[3] = bad
    assert off(a, b).startswith("output 0 at [3] is") and "off by inf" in off(a, b)
    assert off(b, a) == "", "where the reference is no number nothing is defined"
    assert off(a, a) == ""


def test_whole_numbers_are_exact_or_one_step_off():
    b = np.arange(-50, 50, dtype="int8")
    assert off(b, b, 0.0, 0) == "" and off(b + np.int8(1), b, 0.0, 0)
    assert off(b + np.int8(1), b) == "" and off(b + np.int8(2), b)
    edges = np.array([0, 255], "uint8")
    assert "off by 255" in off(edges[::-1], edges), "no wrap around"
    b = np.zeros(5000, "int64")
    for flips, is_right in ((5, True), (6, False)):
        a = b.copy()
        a[:flips] = 7
        assert (off(a, b) == "") == is_right, "an index of a greatest value, at near ties"
        assert off(a, b, 0.0, 0)
    flags = np.array([True, False])
    assert off(flags, flags, 0.0, 0) == "" and off(~flags, flags)


def test_other_shapes_types_and_counts_are_wrong():
    b = np.ones((2, 3), "float32")
    assert off(b.T, b) == "output 0 is float32(3, 2), TVM's is float32(2, 3)"
    assert "float64" in off(b.astype("float64"), b)
    text = rounding.mismatch([b], [b, b], rounding.Tolerance(1e-4, 1))
    assert text == "1 outputs, TVM has 2"
    empty = np.ones((0, 3), "float32")
    assert off(empty, empty) == ""


@pytest.mark.usefixtures("forked_workers")
def test_without_a_reference_a_candidate_is_measured_and_says_so():
    deeds = {"raise": "ValueError: no kernel for this", "exit": "exited with code 0"}
    candidates = [fake_candidate(d, 1e-3, verify=True, reference=d) for d in deeds]
    candidates += [fake_candidate("plain"), fake_candidate("bad", "raise", reference="hang")]
    candidates.append(fake_candidate("bad build", build="raise", verify=True, reference="hang"))
    with measure.MeasuredCostEstimator(fake_options(workers=1)) as estimator:
        *doubtful, plain, bad, bad_build = estimator.estimate(candidates)
    for cost, reason in zip(doubtful, deeds.values(), strict=True):
        assert cost.seconds == 1e-3 and cost.message.startswith(f"not verified: {reason}")
    assert plain.message == ""
    assert (bad.status, bad_build.status) == ("run_failed", "compile_failed")
