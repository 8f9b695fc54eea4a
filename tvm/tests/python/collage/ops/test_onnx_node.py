# SPDX-License-Identifier: Apache-2.0
"""The operator that carries an ONNX node: by TVM on each executor, in files, folded, with shapes
that data decide; and names of values in bodies."""

import numpy as np
import onnx_nets
import pytest
import tvm
from onnx import TensorProto, helper
from onnx_one_node import assert_alike, by_onnxruntime, by_tvm, by_vm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay import collage
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.errors import UnsupportedOpError
from tvm.relay.collage.ops import ONNX_NODES, model_of, onnx_node
from tvm.relay.collage.ops.onnx_names import captured, domains, renamed
from tvm.relay.collage.ops.onnx_node import SHARED

node = helper.make_node


def model(made, inputs, outputs, opset=18):
    """Of (element type, shape) each."""
    ends = [
        [(f"{name}_{n}", shape, kind) for n, (kind, shape) in enumerate(each)]
        for name, each in (("input", inputs), ("output", outputs))
    ]
    return onnx_nets.model([made], *ends, opset=opset, is_checked=False)


TOPK = model(
    node("TopK", ["input_0", "input_1"], ["output_0", "output_1"], largest=0),
    [(TensorProto.FLOAT, [2, 6]), (TensorProto.INT64, [1])],
    [(TensorProto.FLOAT, [2, 3]), (TensorProto.INT64, [2, 3])],
)
TYPES = [relay.TensorType([2, 3]), relay.TensorType([2, 3], "int64")]
X = np.random.default_rng(0).standard_normal((2, 6)).astype("float32")


def smallest(x, count=None):
    """The three smallest of each row, with an operator before and behind."""
    count = relay.const(np.array([3]), "int64") if count is None else count
    results = relay.expr.TupleWrapper(onnx_node(TOPK, [relay.nn.relu(x), count], TYPES), 2)
    return relay.Tuple([relay.exp(results[0]), results[1]])


def expected():
    first, second = by_onnxruntime(TOPK, [np.maximum(X, 0), np.array([3])])
    return [np.exp(first), second]


@pytest.fixture(scope="module")
def module():
    x = relay.var("x", shape=(2, 6))
    return relay.transform.InferType()(tvm.IRModule.from_expr(smallest(x)))


def test_tvm_runs_it_by_onnxruntime(module):
    for found in (by_tvm(module, {"x": X}), *by_vm(module, {"x": X})):
        assert_alike(found, expected())


def test_a_library_in_a_file_runs_it(module, tmp_path):
    build_library(module, collage.host_target()).export_library(str(tmp_path / "lib.so"))
    loaded = tvm.runtime.load_module(str(tmp_path / "lib.so"))
    executor = graph_executor.GraphModule(loaded["default"](tvm.cpu()))
    executor.run(x=X)
    assert_alike([executor.get_output(i).numpy() for i in range(2)], expected())


def test_a_saved_module_is_the_same(module):
    tvm.ir.assert_structural_equal(tvm.ir.load_json(tvm.ir.save_json(module)), module)
    call = module["main"].body.fields[1].tuple_value
    assert model_of(call.attrs) == TOPK and call.op.name == ONNX_NODES[2]


def test_on_constants_it_is_folded():
    mod = tvm.IRModule.from_expr(smallest(relay.const(X)))
    folded = relay.transform.FoldConstant()(relay.transform.InferType()(mod))
    assert all(isinstance(field, relay.Constant) for field in folded["main"].body.fields)


def test_the_vm_asks_it_for_shapes_that_data_decide():
    found = model(
        node("NonZero", ["input_0"], ["output_0"]),
        [(TensorProto.FLOAT, [2, 6])],
        [(TensorProto.INT64, [2, "n"])],
    )
    x = relay.var("x", shape=(2, 6))
    call = onnx_node(found, [x], [relay.TensorType([2, relay.Any()], "int64")])
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.add(call, call)))
    values = (X, np.zeros_like(X), np.maximum(X, 0))
    for value, results in zip(values, by_vm(mod, *({"x": value} for value in values)), strict=True):
        (positions,) = by_onnxruntime(found, [value])
        assert_alike(results, [2 * positions])


def test_one_that_tells_its_sizes_runs_once_for_them_and_its_outputs():
    """Random numbers would be others the second time; each size of the input takes one session."""
    found = model(
        node("RandomUniformLike", ["input_0"], ["output_0"], dtype=TensorProto.FLOAT),
        [(TensorProto.FLOAT, ["n"])],
        [(TensorProto.FLOAT, ["n"])],
    )
    spec, more = tvm.nd.array(np.zeros(5, "float32")), tvm.nd.array(np.zeros(5, "float32"))
    sizes = tvm.nd.array(np.zeros(1, "int64"))
    digits = found.SerializeToString().hex()
    head = ("onnxruntime", "a digest of its own", digits, SHARED, 1)
    run = tvm.get_global_func("collage.onnx_model.run_node")
    tell = tvm.get_global_func("collage.onnx_model.tell_shapes")
    results = []
    for _ in range(2):
        tell(*head, spec, sizes)
        assert sizes.numpy() == [5]
        run(*head, spec, more)
        results.append(more.numpy())
    run(*head, spec, more)  # nobody asked before: it runs anew
    assert len({tuple(each) for each in [*results, more.numpy()]}) == 3
    for size in (3, 5, 8):
        own = tvm.nd.array(np.zeros(size, "float32"))
        run(*head, tvm.nd.array(np.ones(size, "float32")), own)
        assert own.numpy().min() > 0 and own.numpy().max() < 1
    with pytest.raises(tvm.TVMError, match="gives output 0 a shape other than that"):
        run(*head, tvm.nd.array(np.ones(3, "float32")), more)


def test_more_operands_than_any_operator_has_are_refused():
    many = [relay.var(f"x{i}", shape=(1,)) for i in range(len(ONNX_NODES))]
    with pytest.raises(UnsupportedOpError, match="TopK: it has 33 inputs, and 32 at most"):
        onnx_node(TOPK, many, TYPES)


def loop():
    """A Loop whose body reads `w` and, in an If, `v` of the graph around it."""
    value = helper.make_tensor_value_info
    branches = {
        f"{name}_branch": helper.make_graph(
            [node("Add", ["a", read], [name])], name, [], [value(name, TensorProto.FLOAT, [1])]
        )
        for name, read in (("then", "v"), ("else", "w"))
    }
    body = helper.make_graph(
        [node("Mul", ["s", "w"], ["a"]), node("If", ["go"], ["s2"], **branches)],
        "body",
        [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []),
         value("s", TensorProto.FLOAT, [1])],
        [value("go", TensorProto.BOOL, []), value("s2", TensorProto.FLOAT, [1])],
    )  # fmt: skip
    return node("Loop", ["n", "", "x"], ["y"], body=body)


def test_what_bodies_read_of_the_graph_around():
    assert captured(loop()) == ["w", "v"]
    assert set(domains(helper.make_graph([loop()], "g", [], []))) == {""}


def test_renaming_reaches_into_bodies():
    new = renamed(loop(), lambda name: f"new_{name}")
    assert captured(new) == ["new_w", "new_v"]
    assert list(new.input) == ["new_n", "", "new_x"]
    body = new.attribute[0].g
    assert [value.name for value in body.output] == ["new_go", "new_s2"]
    kinds = {"n": TensorProto.INT64, "x": TensorProto.FLOAT, "w": TensorProto.FLOAT}
    kinds["v"] = TensorProto.FLOAT
    inputs = [(f"new_{name}", [] if name == "n" else [1], kind) for name, kind in kinds.items()]
    onnx_nets.model([new], inputs, [("new_y", [1])])
