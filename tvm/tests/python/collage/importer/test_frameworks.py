# SPDX-License-Identifier: Apache-2.0
"""Models from ONNX, PyTorch and TFLite: partitioned with given costs, built, run, compared.

What the importers make of small models is partitioned between TVM and oneDNN, built for the VM (or
the graph executor) and compared with the framework itself.
"""

import numpy as np
import onnx_nets
import pytest
import tvm
from onnx_one_node import by_onnxruntime
from relay_text import count_calls, is_external, partition, plain_host
from tvm import relay
from tvm.contrib.graph_executor import GraphModule
from tvm.relay import collage
from tvm.relay.collage import MockCostEstimator
from tvm.relay.collage.compile import build_library, build_vm, prepare
from tvm.relay.collage.measure import Cost
from tvm.runtime.vm import VirtualMachine
from tvm.target import Target

HOST = plain_host()
CHEAP = {"llvm": 10, "dnnl": 1}


def flat(result):
    if isinstance(result, tvm.nd.NDArray):
        return [result.numpy()]
    return [array for item in result for array in flat(item)]


def run_vm(mod, inputs):
    """The arrays that main gives, tuples flattened; inputs are arrays by parameter name."""
    machine = VirtualMachine(build_vm(mod, HOST, opt_level=3), tvm.cpu())
    return flat(machine.run(*[inputs[param.name_hint] for param in mod["main"].params]))


def run_graph(mod, inputs):
    module = GraphModule(build_library(mod, HOST, opt_level=3)["default"](tvm.cpu()))
    module.run(**inputs)
    return [module.get_output(k).numpy() for k in range(module.get_num_outputs())]


def check(mod, params, inputs, expected, run=run_vm, costs=CHEAP):
    """Partition, run, compare; return the names of the parts and the reports by function."""
    prepared = prepare(mod, params, HOST)
    estimator = MockCostEstimator(costs)
    result = partition(prepared, [Target("dnnl")], estimator)
    assert count_calls(result) == count_calls(prepared)
    for ours, theirs in zip(run(result, inputs), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    parts = [var.name_hint for var, function in result.functions.items() if is_external(function)]
    return sorted(parts), {report.function: report for report in estimator.reports}


def stays(report):
    """Operators that the backend did not get."""
    return {row.op for row in report.unplaced}


# ONNX.


def check_onnx(model, dynamic=3, **options):
    """`check` of an ONNX model with random inputs; `dynamic` is the size of open dimensions."""
    rng = np.random.default_rng(0)
    inputs = {}
    weights = {item.name for item in model.graph.initializer}
    for value in model.graph.input:
        if value.name in weights:
            continue
        kind = value.type.tensor_type
        shape = [dim.dim_value or dynamic for dim in kind.shape.dim]
        is_float = kind.elem_type == 1
        inputs[value.name] = (
            rng.standard_normal(shape).astype("float32") if is_float else np.full(shape, 3, "int64")
        )
    expected = by_onnxruntime(model, inputs)
    mod, params = collage.from_onnx(model)
    return check(mod, params, inputs, expected, **options)


@pytest.mark.parametrize("run", [run_vm, run_graph])
def test_onnx_conv_net_is_one_part(run):
    parts, reports = check_onnx(onnx_nets.conv_net(), run=run)
    assert len(parts) == 1 and not reports["main"].unplaced


def test_onnx_conv_net_where_both_take_part():
    """Costs at which convolutions go to the backend and all else to TVM."""

    class Estimator(MockCostEstimator):
        def estimate_batch(self, mods, targets, labels):
            return [
                Cost.given(sum(map(price(target), ops_of(label))))
                for target, label in zip(targets, labels, strict=True)
            ]

    def ops_of(label):
        return label.partition("(")[2].removesuffix(")").split(", ")

    def price(target):
        return lambda op: 1.0 if (target.kind.name == "dnnl") == (op == "nn.conv2d") else 5.0

    mod, params = collage.from_onnx(onnx_nets.conv_net())
    prepared = prepare(mod, params, HOST)
    estimator = Estimator(CHEAP)
    result = partition(prepared, [Target("dnnl")], estimator)
    inputs = {"x": np.random.default_rng(3).standard_normal((1, 3, 16, 16)).astype("float32")}
    for ours, tvms in zip(run_vm(result, inputs), run_vm(prepared, inputs), strict=True):
        np.testing.assert_allclose(ours, tvms, rtol=1e-4, atol=1e-5)
    backends = {part.backend for part in estimator.reports[0].parts if part.is_kernel}
    assert backends == {"llvm", "dnnl"}


def test_onnx_transformer_block():
    parts, reports = check_onnx(onnx_nets.attention())
    assert parts and not {"nn.dense", "nn.batch_matmul"} & stays(reports["main"])


def test_onnx_lstm():
    parts, reports = check_onnx(onnx_nets.lstm())
    assert parts and "nn.dense" not in stays(reports["main"])


def test_onnx_if_has_parts_in_both_branches():
    parts, _ = check_onnx(onnx_nets.branch())
    assert len([name for name in parts if "conv2d" in name]) == 2


def test_onnx_loop_has_parts_in_its_body():
    parts, _ = check_onnx(onnx_nets.loop())
    assert any("dense" in name for name in parts)


def test_onnx_int64_shape_arithmetic_folds_away_when_shapes_are_static():
    parts, reports = check_onnx(onnx_nets.shape_arithmetic(2))
    assert parts and not stays(reports["main"])


def test_onnx_dynamic_batch_stays_on_tvm_and_says_so():
    parts, reports = check_onnx(onnx_nets.shape_arithmetic())
    assert parts == []
    reasons = {row.op: row.message for row in reports["main"].unplaced}
    assert "its shape is dynamic" in reasons["nn.conv2d"]


def test_onnx_split_and_an_output_given_twice():
    parts, reports = check_onnx(onnx_nets.several_outputs())
    assert any("split" in part for part in parts) and "split" not in stays(reports["main"])


# PyTorch.


def check_torch(net, shape):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = net.eval()
    example = torch.randn(shape)
    with torch.no_grad():
        traced, expected = torch.jit.trace(net, example), net(example)
    mod, params = relay.frontend.from_pytorch(traced, [("x", shape)])
    return check(mod, params, {"x": example.numpy()}, [expected.numpy()])


def test_torch_conv_net():
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(8)
            self.depthwise = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
            self.dense = torch.nn.Linear(8, 5)

        def forward(self, x):
            x = torch.relu(self.norm(self.conv(x)))
            x = torch.nn.functional.silu(self.depthwise(x)) + x
            x = torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)
            return torch.softmax(self.dense(x), -1)

    parts, reports = check_torch(Net(), (1, 3, 16, 16))
    assert parts and not {"nn.conv2d", "nn.dense"} & stays(reports["main"])


def test_torch_attention_block():
    torch = pytest.importorskip("torch")
    width, heads = 16, 2

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = torch.nn.Linear(width, 3 * width)
            self.out = torch.nn.Linear(width, width)
            self.norm = torch.nn.LayerNorm(width)
            self.up = torch.nn.Linear(width, 4 * width)
            self.down = torch.nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, _ = x.shape

            def split(tensor):
                return tensor.reshape(batch, length, heads, width // heads).transpose(1, 2)

            q, k, v = (split(tensor) for tensor in self.qkv(x).chunk(3, -1))
            probs = torch.softmax(q @ k.transpose(2, 3) * (width // heads) ** -0.5, -1)
            mixed = (probs @ v).transpose(1, 2).reshape(batch, length, width)
            x = self.norm(x + self.out(mixed))
            return x + self.down(torch.nn.functional.gelu(self.up(x)))

    parts, reports = check_torch(Block(), (1, 6, width))
    assert parts and not {"nn.dense", "nn.batch_matmul"} & stays(reports["main"])


# TFLite.


def test_tflite_conv_net():
    tflite = pytest.importorskip("tflite")
    pytest.importorskip("flatbuffers")
    import tflite_nets

    data, weights = tflite_nets.conv_net()
    model = tflite.Model.GetRootAsModel(data, 0)
    mod, params = relay.frontend.from_tflite(model)
    x = np.random.default_rng(1).standard_normal((1, 8, 8, 3)).astype("float32")
    expected = tflite_nets.reference(weights, x)
    parts, reports = check(mod, params, {"x": x}, [expected])
    assert len(parts) == 1 and not reports["main"].unplaced
