# SPDX-License-Identifier: Apache-2.0
"""The registry, a backend of a user's own, and the choice of patterns that can match at all."""

import numpy as np
import pytest
import tvm
from onednn_nets import build, run
from tvm import relay
from tvm.relay.collage import backends
from tvm.relay.collage.backends.registry import REGISTERED
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op.contrib.register import get_pattern_table


class Doubler(backends.Backend):
    """Runs nn.relu, twice as large as it should be: enough to see that it ran."""

    name = "doubler"
    can_be_wrong = True
    op_predicates = {"nn.relu": lambda call: call.checked_type.dtype == "float32"}

    def version(self):
        return "7"

    def patterns(self):
        return [("doubler.relu", is_op("nn.relu")(wildcard()))]

    def compile(self, function):
        shape = [int(extent) for extent in function.ret_type.shape]
        data = tvm.te.placeholder(shape, name="data")
        result = tvm.te.compute(shape, lambda *i: tvm.te.max(data(*i), 0.0) * 2.0)
        schedule = tvm.te.create_schedule(result.op)
        name = str(function.attrs["global_symbol"])
        return tvm.build(schedule, [data, result], target="llvm", name=name)


@pytest.fixture
def doubler():
    yield backends.register_backend(Doubler())
    REGISTERED.pop("doubler")


def relu():
    x = relay.var("x", shape=(4,))
    return relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    )


def test_own_backend_runs(doubler):
    library = build(backends.greedy_partition(relu(), "doubler"))
    [found] = run(library, {"x": np.array([-1.0, 0.0, 1.0, 2.5], "float32")})
    assert found.tolist() == [0.0, 0.0, 2.0, 5.0]


def test_registering_tells_tvm(doubler):
    assert [entry[0] for entry in get_pattern_table("doubler")] == ["doubler.relu"]
    assert tvm.get_global_func("relay.ext.doubler")
    assert tvm.ir.Op.get("nn.relu").get_attr("target.doubler") is not None
    assert tvm.target.Target("doubler").kind.name == "doubler"
    assert doubler in backends.list_backends()


def test_a_reason_is_no_answer_for_tvms_own_passes(doubler):
    class Reasoned(Doubler):
        annotate_predicates = {"nn.relu": lambda call: "too small"}

        def patterns(self):
            return [("doubler.relu", is_op("nn.relu")(wildcard()), lambda expr: "too small")]

    backends.register_backend(Reasoned())
    merged = relay.transform.MergeComposite(get_pattern_table("doubler"))(relu())
    annotated = relay.transform.AnnotateTarget("doubler")(merged)
    assert "Composite" not in merged.astext() and "doubler" not in annotated.astext()


def test_a_second_registration_replaces_the_first(doubler):
    class Other(Doubler):
        op_predicates = {}

    other = backends.register_backend(Other())
    assert backends.get_backend("doubler") is other
    assert tvm.ir.Op.get("nn.relu").get_attr("target.doubler") is None


def test_a_second_registration_has_its_own_naming_of_constants(doubler):
    """TVM asks the first class's `constants` no more."""
    updater = "relay.ext.doubler.constant_updater"

    class Naming(Doubler):
        def constants(self, function, symbol):
            return {"doubler_of_the_first": tvm.nd.empty((1,))}

    backends.register_backend(Naming())
    assert tvm.get_global_func(updater)
    backends.register_backend(Doubler())
    assert tvm.get_global_func(updater, allow_missing=True) is None


def test_unknown_backend():
    with pytest.raises(
        backends.UnknownBackendError, match="'dnn', did you mean dnnl.; known: .*dnnl"
    ):
        backends.get_backend("dnn")


def test_a_misspelt_name_is_found_by_a_backends_or_its_librarys_name():
    meant = backends.which_was_meant
    assert meant("onednn", ["dnnl", "cblas"]) == meant("DNNL", ["dnnl"]) == ", did you mean dnnl?"
    assert meant("acll", ["ACL", "dnnl"]) == ", did you mean ACL?"
    assert meant("oneDNN", ["cblas"]) == meant("quite another", ["dnnl"]) == ""


def test_unavailable_backend(doubler, monkeypatch):
    monkeypatch.setattr(doubler, "available", lambda: "this machine doubles nothing")
    with pytest.raises(backends.BackendUnavailableError, match="'doubler'.*doubles nothing"):
        backends.require_backend("doubler")
    assert doubler.summary() == "doubler (op-level): not available: this machine doubles nothing"


def test_a_class_is_no_backend():
    wrong = type("Wrong", (backends.Backend,), {"name": "wrong"})
    with pytest.raises(TypeError, match=r"takes a backend, not a class: give it Wrong\(\)"):
        backends.register_backend(wrong)


def test_what_is_compiled_must_be_a_module(doubler, monkeypatch):
    monkeypatch.setattr(doubler, "compile", lambda function: None)
    compile_part = tvm.get_global_func("relay.ext.doubler")
    with pytest.raises(TypeError, match="backend doubler: compile.. returns a runtime module, got"):
        compile_part(relay.Function([], relay.const(1.0)))


RELU = is_op("nn.relu")(wildcard())
MISSPELLED = {"nn.sofmax": lambda call: True}


def table(*entries):
    """The patterns of a class."""
    return {"patterns": lambda self: list(entries)}


# What a class says of itself, and the error when it is registered.
BAD = [
    ({"name": "my backend"}, ValueError, "letters, digits and _, not 'my backend'"),
    ({"kind": "node-level"}, ValueError, "kind is .*, not 'node-level'"),
    ({"colour": "blue"}, ValueError, "backend bad: colour is .*, not 'blue'"),
    ({"trades_accuracy": "bf16"}, ValueError, "trades_accuracy is the type that it computes in"),
    *(
        ({"traded_ops": ops, **more}, ValueError, "traded_ops is a set of Relay's operators beside")
        for ops, more in (
            ("nn.dense", {"trades_accuracy": "bfloat16"}),
            (frozenset({"nn.dens"}), {"trades_accuracy": "bfloat16"}),
            (frozenset({"nn.dense"}), {}),
        )
    ),
    # A host target of a list, or a plan of ours, would be taken for the backend.
    *(
        ({"name": name}, ValueError, f"backend {name}: .* take another name")
        for name in ("c", "llvm", "cuda", "tvm", "transition", "collage")
    ),
    ({"op_predicates": MISSPELLED}, ValueError, "op_predicates: .*'nn.sofmax'; did you mean"),
    ({"annotate_predicates": MISSPELLED}, ValueError, "annotate_predicates: .*'nn.sofmax'"),
    (
        {"patterns": lambda self: [("bad.softmax", is_op("nn.sofmax")(wildcard()))]}, ValueError,
        "making its patterns failed: .*nn.sofmax",
    ),
    (table(("relu", RELU)), ValueError, "'relu' must begin with 'bad.'"),
    (
        table(("bad.good", RELU), ("bad.relu", "nn.relu")), TypeError,
        "the pattern of a pattern entry is a DFPattern, got str in entry 'bad.relu'",
    ),
    (table((7, RELU)), TypeError, "the name of a pattern entry is a str, got int in entry 7"),
    (
        table(("bad.relu", RELU, "f32")), TypeError,
        "the predicate of a pattern entry is a function, got str in entry 'bad.relu'",
    ),
    (
        table(("bad.relu", RELU, None, {})), TypeError,
        "the attrs getter of a pattern entry is a function, got dict in entry 'bad.relu'",
    ),
    (table(RELU), TypeError, "a pattern entry is a tuple, got CallPattern; use .name, pattern"),
    (table(("bad.relu",)), ValueError, "a pattern entry has 2 to 4 fields, got 1: 'bad.relu'; use"),
    (table(()), ValueError, "a pattern entry has 2 to 4 fields, got 0; use"),
    ({"options": {"fast": 0.5}}, TypeError, "the default of option 'fast' is a bool, an int or"),
    ({"options": {"my option": 1}}, ValueError, "an option's name is .*, not 'my option"),
    ({"options": {1: 1}}, ValueError, "an option's name is letters, digits and _, not 1"),
    ({"options": {"libs": "x"}}, ValueError, "option 'libs' cannot be of type str: the target"),
    ({"options": {"partition_rule": "x"}}, ValueError, "another meaning, for TVM"),
]  # fmt: skip


@pytest.mark.parametrize("fields, error, message", BAD)
def test_what_is_declared_wrongly_is_seen_at_registration(fields, error, message):
    bad = type("Bad", (backends.Backend,), {"name": "bad", **fields})()
    with pytest.raises(error, match=message):
        backends.register_backend(bad)
    assert backends.find_backend(bad.name) is None
    assert tvm.get_global_func(f"relay.ext.{bad.name}", allow_missing=True) is None


def test_a_backend_without_a_codegen_says_so():
    with pytest.raises(TypeError, match="define compile"):
        backends.Backend().compile(None)


def test_builtin_backends_are_listed():
    assert {"dnnl", "cblas", "mkl"} <= {backend.name for backend in backends.list_backends()}
    dnnl = backends.get_backend("dnnl")
    assert dnnl.kind == backends.GRAPH_LEVEL and dnnl.default_rule() == backends.GRAPH_LEVEL
    names = [entry[0] for entry in dnnl.patterns()]
    assert len(names) == len(set(names)) and "dnnl.conv2d_bias_sum_relu" in names
