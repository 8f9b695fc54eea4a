# SPDX-License-Identifier: Apache-2.0
"""What an ONNX model gives on each backend, against onnxruntime's own session of the model."""

import functools
import threading

import numpy as np
import onnx_nets
import pytest
import tvm
from onednn_nets import assert_close, build, run
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay import collage
from tvm.relay.collage.backends import get_backend, greedy_partition
from tvm.relay.collage.compile import fast_passes

ort = pytest.importorskip("onnxruntime")

NETS = {
    "conv": onnx_nets.conv_net,
    "transformer": onnx_nets.attention,
    "two results": onnx_nets.several_outputs,
}
BACKENDS = ("dnnl", "cblas", "mkl", "onnxruntime", "openvino", "xnnpack")
# These multiply matrices only.
BLAS = ("cblas", "mkl")


@functools.cache
def net(name):
    """The typed Relay module with its weights bound, inputs, and onnxruntime's results."""
    model = NETS[name]()
    draw = np.random.default_rng(0)
    inputs = {
        value.name: draw.standard_normal(
            [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        ).astype("float32")
        for value in model.graph.input
    }
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    mod, params = collage.from_onnx(model, freeze_params=True)
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], params)
    passes = [relay.transform.DynamicToStatic(), relay.transform.SimplifyInference()]
    passes += [relay.transform.FoldConstant(), relay.transform.InferType()]
    with fast_passes(opt_level=3):
        mod = tvm.transform.Sequential(passes)(mod)
    return mod, inputs, session.run(None, inputs)


# As many as the longest chain that one of them runs as a kernel.
_MOST_CALLS = 9


@pytest.mark.parametrize("name", NETS)
def test_tvm_alone(name):
    mod, inputs, wanted = net(name)
    assert_close(run(build(mod), inputs), wanted)


@pytest.mark.parametrize(
    "backend, level",
    # The parts of BLAS are of one product at either level.
    [(name, level) for name in BACKENDS for level in ("region", "op")[: 1 + (name not in BLAS)]],
)
@pytest.mark.parametrize("name", NETS)
def test_all_that_a_backend_takes(name, backend, level):
    reason = get_backend(backend).available()
    if reason:
        pytest.skip(reason)
    mod, inputs, wanted = net(name)
    placed = greedy_partition(mod, backend, most_calls=_MOST_CALLS if level == "op" else None)
    takes_some = len(placed.get_global_vars()) > 1
    assert takes_some == (name != "two results" or backend not in BLAS)
    assert_close(run(build(placed), inputs), wanted)


def test_nets_of_several_backends_run_in_several_threads_at_once():
    """Each thread has an executor; two nets, products on one backend, the rest on another."""
    wrong, threads, mixes = [], [], []
    for name, products, others in (
        ("conv", "cblas", "onnxruntime"),
        ("conv", "cblas", "openvino"),
        ("transformer", "cblas", "openvino"),
        ("transformer", "cblas", "dnnl"),
    ):
        if any(get_backend(backend).available() for backend in (products, others)):
            continue
        mod, inputs, wanted = net(name)
        mixed = greedy_partition(greedy_partition(mod, products), others)
        functions = [function for _, function in mixed.functions_items()]
        compilers = {str(f.attrs["Compiler"]) for f in functions if "Compiler" in (f.attrs or ())}
        assert compilers == {products, others}
        mixes.append((name, build(mixed), inputs, wanted))
    assert len(mixes) >= 2, "cblas, dnnl and onnxruntime are here"

    def work(name, module, inputs, wanted):
        for _ in range(20):
            module.run(**inputs)
            for n, right in enumerate(wanted):
                if not np.allclose(module.get_output(n).numpy(), right, rtol=1e-4, atol=1e-4):
                    wrong.append(name)

    for name, library, inputs, wanted in mixes:
        for _ in range(2):
            module = graph_executor.GraphModule(library["default"](tvm.cpu()))
            threads.append(threading.Thread(target=work, args=(name, module, inputs, wanted)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
