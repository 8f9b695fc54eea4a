# SPDX-License-Identifier: Apache-2.0
"""Models of one ONNX node, imported and run beside onnxruntime, and random ones of them."""

import numpy as np
import onnx
import onnx_nets
import onnxruntime
import tvm
from onnx import helper
from tvm.relay import collage
from tvm.relay.collage.compile import build_library
from tvm.runtime.vm import VirtualMachine


def one_node(made, inputs, weights=None, opset=18):
    """A model of a node; inputs: arrays by name. Its outputs' types are what onnxruntime says."""
    kinds = [(n, a.shape, helper.np_dtype_to_tensor_dtype(a.dtype)) for n, a in inputs.items()]
    outputs = [(name, []) for name in made.output if name]
    model = onnx_nets.model([made], kinds, outputs, weights or {}, opset, is_checked=False)
    for value in model.graph.output:
        value.ClearField("type")
    for domain in {made.domain} - {""}:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    return model


def by_onnxruntime(model, inputs, is_optimized=True):
    """The outputs of a model; inputs: arrays by name, or a list, of input_0, ..."""
    if not isinstance(inputs, dict):
        inputs = {f"input_{n}": array for n, array in enumerate(inputs)}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers)
    return session.run(None, inputs)


def by_tvm(mod, inputs):
    """The outputs of an imported module on the graph executor."""
    library = build_library(mod, collage.host_target())
    executor = tvm.contrib.graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(**inputs)
    return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


def by_vm(mod, *several):
    """The outputs for several inputs, one after the other, on the VM, which takes shapes that data
    decide."""
    machine = VirtualMachine(tvm.relay.vm.compile(mod, collage.host_target()), tvm.cpu())
    for inputs in several:
        found = machine.run(**inputs)
        yield [e.numpy() for e in (found if not isinstance(found, tvm.nd.NDArray) else [found])]


def assert_alike(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        largest = np.abs(theirs[np.isfinite(theirs)].astype("float64")).max(initial=0.0)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5 * max(largest, 1e-9))


class RandomNodes:
    """Nodes of the operators that TVM reads wrongly now and then, each with inputs and weights."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.kinds = (self.resize, self.pool, self.transposed, self.indexed)

    def next(self):
        """(node, inputs, weights) of a random kind."""
        return self.pick(*self.kinds)()

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def normal(self, *shape):
        return self.rng.standard_normal(shape).astype("float32")

    def ints(self, low, high, count):
        return [int(each) for each in self.rng.integers(low, high, count)]

    def resize(self):
        places = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
        attrs = {
            "mode": self.pick("nearest", "linear", "cubic"),
            "coordinate_transformation_mode": self.pick(*places),
        }
        if attrs["mode"] == "nearest":
            rounds = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
            attrs["nearest_mode"] = self.pick(*rounds)
        x = self.normal(1, 2, self.pick(4, 5, 6), self.pick(4, 7, 8))
        if self.rng.random() < 0.4:
            weights = {"s": np.array([1, 2, *self.ints(2, 12, 2)])}
            inputs = ["x", "", "", "s"]
        else:
            scales = [1, 1, *(self.pick(0.5, 1 / 3, 0.7, 1.3, 1.5, 2.0, 3.0) for _ in range(2))]
            weights, inputs = {"s": np.array(scales, "float32")}, ["x", "", "s"]
        return helper.make_node("Resize", inputs, ["y"], **attrs), {"x": x}, weights

    def pool(self):
        op, space = self.pick("AveragePool", "MaxPool", "LpPool"), self.pick(1, 2, 3)
        kernel = self.ints(2, 4, space)
        attrs = {"kernel_shape": kernel, "strides": self.ints(1, 4, space)}
        if self.rng.random() < 0.5:
            attrs["pads"] = [int(self.rng.integers(0, size)) for size in kernel * 2]
        if op == "LpPool":
            attrs["p"] = self.pick(1, 2, 3)
        else:
            attrs["ceil_mode"] = self.pick(0, 1)
        if op == "AveragePool":
            attrs["count_include_pad"] = self.pick(0, 1)
        x = self.normal(1, 2, *self.ints(5, 9, space))
        return helper.make_node(op, ["x"], ["y"], **attrs), {"x": x}, {}

    def transposed(self):
        space, group = self.pick(1, 2, 3), self.pick(1, 2)
        kernel, strides = self.ints(1, 4, space), self.ints(1, 4, space)
        attrs = {"kernel_shape": kernel, "strides": strides, "group": group}
        how = self.pick("pads", "SAME_UPPER", "SAME_LOWER", "dilations", "output_padding")
        if how == "pads":
            attrs["pads"] = [int(self.rng.integers(0, size)) for size in kernel * 2]
        elif how == "dilations":
            attrs["dilations"] = [2] * space
        elif how == "output_padding":
            attrs["output_padding"] = [step - 1 for step in strides]
        else:
            attrs["auto_pad"] = how
        x = self.normal(1, 2 * group, *self.ints(4, 7, space))
        weights = {"w": self.normal(2 * group, 3, *kernel)}
        return helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attrs), {"x": x}, weights

    def indexed(self):
        low, inputs, weights = self.pick(-3, 0), {"x": self.normal(3, 4)}, {}
        if self.rng.random() < 0.5:
            indices, names, op = (
                self.rng.integers(low, 3, (2, self.pick(1, 2))),
                ["x", "i"],
                "GatherND",
            )
        else:
            indices, names, op = np.array([[low], [low + 2]]), ["x", "i", "u"], "ScatterND"
            inputs["u"] = self.normal(2, 4)
        self.pick(inputs, weights)["i"] = indices
        return helper.make_node(op, names, ["y"]), inputs, weights


def failure_of_onnxruntime(model, inputs):
    """What onnxruntime says against a model, "" where it runs."""
    try:
        by_onnxruntime(model, inputs)
    except Exception as error:  # noqa: BLE001 - the library's own kinds
        return str(error)
    return ""


def with_types(model, results):
    """The model with its outputs' types, as exporters write them."""
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    for value, array in zip(typed.graph.output, results, strict=True):
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        value.CopyFrom(helper.make_tensor_value_info(value.name, kind, array.shape))
    return typed
