# SPDX-License-Identifier: Apache-2.0
"""The Python blocks of README.md and of docs/ run as they stand, in the order of their page.

The blocks of a page share their names. What a page takes for given (a net, its data, files) is made
below, small; costs are made up, the guard takes few rounds, or none. A block that cannot run has a
line `<!-- not run: why -->` above it. Blocks in other languages: test_shell_blocks.py.
"""

import subprocess
import sys

import numpy as np
import onnx
import pytest
import tvm
from candidate_nets import conv
from first_answers import answer_first
from models.graph import Graph
from models.low_precision import quantise
from pages import PAGES, blocks, blocks_that_run, text_of
from tree import ROOT, child_environment
from tuning_nets import conv as tuned_conv
from tuning_nets import some_lines
from tvm import autotvm, relay
from tvm.relay import collage
from tvm.relay.collage import MockCostEstimator, optimizer
from tvm.relay.collage.backends import list_backends
from tvm.relay.collage.backends.registry import tell_tvm
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.plans import whole_plans
from tvm.relay.collage.plans.graph_search.libraries import GuardUnavailable
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.target import Target

# Pages whose blocks are for a process that has TVM's runtime alone.
WITHOUT_COMPILER = ("docs/deploy.md",)
WITH_COMPILER = [
    page for page in PAGES if page not in WITHOUT_COMPILER and blocks_that_run(page, "python")
]
# Pages whose guard measures plans: the first one, the one on the guard, and those whose plans have
# kernels or types of their own.
MEASURED = ("README.md", "docs/choosing.md", "docs/accuracy.md", "docs/tuning.md")
SHAPE = (1, 3, 224, 224)


@pytest.fixture(scope="module")
def model():
    """A convolution that leaves little of an image, and a pool, whose kernel TVM builds quickly."""
    graph = Graph("small")
    x = graph.relu(graph.conv(graph.input("input", SHAPE), 8, 3, stride=32))
    return graph.model(graph.pool("Max", x, 2, 2))


@pytest.fixture(scope="module")
def imported(model):
    return collage.from_onnx(model, shape={"input": SHAPE})


@pytest.fixture
def given(model, imported):
    """The names that pages take for given."""
    mod, params = imported
    return {
        **{"np": np, "onnx": onnx, "tvm": tvm, "relay": relay, "collage": collage},
        **{"autotvm": autotvm, "Target": Target, "is_op": is_op, "wildcard": wildcard},
        **{"model": model, "mod": mod, "params": params},
        "data": np.ones(SHAPE, "float32"),
        "targets": [collage.host_target(), Target("dnnl")],
    }


@pytest.fixture(autouse=True)
def quick_searches(monkeypatch, request):
    """Costs are made up; the guard takes three rounds on the pages MEASURED, elsewhere none."""
    costs = {name: 2 for name in ("cblas", "onnxruntime", "openvino")}
    costs = {"llvm": 10, "dnnl": 1, **costs}
    is_measured = request.node.name.endswith(tuple(f"[{page}]" for page in MEASURED))

    guard = whole_plans.guard
    options = collage.CollageOptions(guard_rounds=3, guard_seconds=0.1).guarding

    def quick(*plans, **more):
        if not is_measured:
            raise GuardUnavailable("no page but two measures plans")
        return guard(*plans, **{**more, "options": options})

    monkeypatch.setattr(optimizer, "CostEstimator", lambda *_: MockCostEstimator(costs))
    monkeypatch.setattr(whole_plans, "guard", quick)
    if not is_measured:
        answer_first(monkeypatch)


@pytest.fixture(autouse=True)
def backends_stay():
    """What a page adds to a backend is taken away again."""
    before = [
        (each, each.added_patterns, each.added_rules, each.local_predicates)
        for each in list_backends()
    ]
    yield
    for backend, patterns, rules, are_local in before:
        backend.added_patterns, backend.added_rules = patterns, rules
        backend.local_predicates = are_local
        tell_tvm(backend)


def for_import(given):
    del given["mod"], given["params"]


def for_readme(given):
    """The file of the quick start's second step, but for its size."""
    graph = Graph("small")
    x = graph.relu(graph.conv(graph.input("x", (1, 3, 48, 192)), 8, 3, stride=16))
    given["model"] = graph.model(x)
    onnx.save(given["model"], "model.onnx")


def for_library(given):
    """What `collage compile` writes for the model."""
    mod, params = collage.from_onnx(given["model"])
    targets = [collage.host_target(), Target("dnnl")]
    collage.optimize(mod, params, targets).save_library("model.so")


def for_quickstart(given):
    for_readme(given)
    for_library(given)


def for_accuracy(given):
    data = {"input": given["data"]}
    onnx.save(quantise(given["model"], data), "net_qdq.onnx")


def for_tuning(given):
    with open("conv.log", "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in some_lines("autotvm", tuned_conv()))
    given["mod"], given["params"] = tuned_conv(), {}


MY_BENCH = """
import numpy as np
class session:
    def __init__(self, model): assert model == "net.onnx"
    def run(self): pass
    def outputs(self): return [np.zeros((2, 4), "float32")]
"""


def for_measuring(given):
    """A model of two inputs, as a library too, and a contestant of the user's own."""
    ids, mask = relay.var("ids", shape=(2,), dtype="int32"), relay.var("mask", shape=(2, 4))
    table = relay.const(np.zeros((8, 4), "float32"))
    mod = tvm.IRModule.from_expr(relay.take(table, ids, axis=0) * mask)
    given["mod"], given["params"] = relay.transform.InferType()(mod), {}
    given["ids"], given["mask"] = np.array([1, 3], "int32"), np.ones((2, 4), "float32")
    given["function"] = conv()
    np.savez("inputs.npz", ids=given["ids"], mask=given["mask"])
    build_library(given["mod"], collage.host_target()).export_library("tvm.so")
    with open("my_bench.py", "w", encoding="utf-8") as file:
        file.write(MY_BENCH)


def for_rules(given):
    """A convolution and its relu are nodes 5 and 6, behind three parameters and two operators."""
    x, weight = relay.var("x", shape=(1, 4, 8, 8)), relay.var("weight", shape=(4, 4, 3, 3))
    body = relay.nn.relu(relay.nn.conv2d(x, weight, kernel_size=3, channels=4))
    params = [x, weight, relay.var("other", shape=(4,))]
    mod = tvm.IRModule.from_expr(relay.Function(params, body))
    given["mod"] = relay.transform.InferType()(mod)


def for_own(given):
    given["pattern"] = is_op("nn.conv2d")(wildcard(), wildcard())
    given["predicate"] = lambda call: True
    given["op_rule"] = given["fusion_rule"] = lambda *calls: True
    given["verify"] = lambda sub_graph: True


MORE = {
    "docs/import.md": for_import,
    "README.md": for_readme,
    "docs/quickstart.md": for_quickstart,
    "docs/tools.md": for_library,
    "docs/accuracy.md": for_accuracy,
    "docs/rules.md": for_rules,
    "docs/tuning.md": for_tuning,
    "docs/measuring.md": for_measuring,
    "docs/choosing.md": for_measuring,
    "docs/backends/own.md": for_own,
}


@pytest.mark.parametrize("page", WITH_COMPILER)
def test_the_blocks_run(page, given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    onnx.save(given["model"], "model.onnx")
    MORE.get(page, lambda given: None)(given)
    for block in blocks_that_run(page, "python"):
        # As many empty lines as make an error's line the page's.
        exec(compile("\n" * block.line + block.code, str(ROOT / page), "exec"), given)
    assert "__builtins__" in given  # something ran


@pytest.mark.parametrize("page", WITHOUT_COMPILER)
def test_the_blocks_run_on_the_runtime_alone(page, tmp_path):
    x = relay.var("data", shape=(2, 4))
    library = build_library(tvm.IRModule.from_expr(relay.nn.relu(x)), collage.host_target())
    library.export_library(str(tmp_path / "net.so"))
    code = "import numpy as np\ndata = np.full((2, 4), -1.0, 'float32')\n"
    code += "".join(block.code for block in blocks_that_run(page, "python"))
    code += "print(outputs[0].sum(), module.get_output(0).numpy().sum())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, env=child_environment(TVM_USE_RUNTIME_LIB="1"),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.split() == ["0.0", "0.0"], done.stderr


def test_blocks_that_do_not_run_say_why():
    reasons = [block.why for page in PAGES for block in blocks(page) if block.why is not None]
    assert len(reasons) == "".join(map(text_of, PAGES)).count("\n<!-- not run")
    assert reasons and all(len(why.split()) > 4 for why in reasons)


def test_the_page_on_own_backends_shows_the_file_of_one():
    file = ROOT / "tvm/python/tvm/relay/collage/backends/cblas.py"
    shown = [
        each for each in blocks("docs/backends/own.md", "python") if "cblas.py" in str(each.why)
    ]
    assert len(shown) == 3
    assert all(each.code in file.read_text(encoding="utf-8") for each in shown)
