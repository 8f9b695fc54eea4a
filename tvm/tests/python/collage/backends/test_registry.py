# SPDX-License-Identifier: Apache-2.0
"""The registry, a backend of a user's own, and the choice of patterns that can match at all."""

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.relay.collage import backends
from tvm.relay.collage.backends.registry import _BACKENDS
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
    _BACKENDS.pop("doubler")


def test_own_backend_runs(doubler):
    x = relay.var("x", shape=(4,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    mod = backends.greedy_partition(mod, "doubler")
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target="llvm")
    module = tvm.contrib.graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.set_input("x", np.array([-1.0, 0.0, 1.0, 2.5], "float32"))
    module.run()
    assert module.get_output(0).numpy().tolist() == [0.0, 0.0, 2.0, 5.0]


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
    x = relay.var("x", shape=(4,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    mod = relay.transform.InferType()(mod)
    merged = relay.transform.MergeComposite(get_pattern_table("doubler"))(mod)
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


def test_bad_declarations():
    class BadName(backends.Backend):
        name = "my backend"

    class BadKind(backends.Backend):
        name, kind = "bad", "node-level"

    class BadPattern(backends.Backend):
        name = "bad"

        def patterns(self):
            return [("relu", is_op("nn.relu")(wildcard()))]

    class BadColour(backends.Backend):
        name, colour = "bad", "blue"

    class NoCodegen(backends.Backend):
        name = "bad"

    with pytest.raises(ValueError, match="not 'my backend'"):
        backends.register_backend(BadName())
    with pytest.raises(ValueError, match="backend bad: colour is .*, not 'blue'"):
        backends.register_backend(BadColour())
    with pytest.raises(ValueError, match="not 'node-level'"):
        backends.register_backend(BadKind())
    with pytest.raises(ValueError, match="'relu' must begin with 'bad.'"):
        backends.register_backend(BadPattern())
    with pytest.raises(TypeError, match="define compile"):
        NoCodegen().compile(None)


@pytest.mark.parametrize("kind", ["c", "llvm", "cuda", "tvm", "transition", "collage"])
def test_names_that_mean_something_else_are_no_backends_names(kind):
    """A host target of a list, or a plan of ours, would be taken for the backend."""
    wrong = type("Wrong", (backends.Backend,), {"name": kind})
    with pytest.raises(ValueError, match=f"backend {kind}: .* take another name"):
        backends.register_backend(wrong())
    assert backends.find_backend(kind) is None
    assert tvm.get_global_func(f"relay.ext.{kind}", allow_missing=True) is None


def test_a_class_is_no_backend():
    wrong = type("Wrong", (backends.Backend,), {"name": "wrong"})
    with pytest.raises(TypeError, match=r"takes a backend, not a class: give it Wrong\(\)"):
        backends.register_backend(wrong)


def test_an_op_that_is_none_is_named_with_the_backend():
    class Misspelled(backends.Backend):
        name = "bad"

        def patterns(self):
            return [("bad.softmax", is_op("nn.sofmax")(wildcard()))]

    with pytest.raises(ValueError, match="backend bad: making its patterns failed: .*nn.sofmax"):
        backends.register_backend(Misspelled())
    Misspelled.patterns = backends.Backend.patterns
    for attribute in ("op_predicates", "annotate_predicates"):
        bad = Misspelled()
        setattr(bad, attribute, {"nn.sofmax": lambda call: True})
        with pytest.raises(ValueError, match=f"bad: {attribute}: .*'nn.sofmax'; did you mean"):
            backends.register_backend(bad)
    assert backends.find_backend("bad") is None


def test_what_is_compiled_must_be_a_module(doubler, monkeypatch):
    monkeypatch.setattr(doubler, "compile", lambda function: None)
    compile_part = tvm.get_global_func("relay.ext.doubler")
    with pytest.raises(TypeError, match="backend doubler: compile.. returns a runtime module, got"):
        compile_part(relay.Function([], relay.const(1.0)))


RELU = is_op("nn.relu")(wildcard())


@pytest.mark.parametrize(
    "entry, error, message",
    [
        (("bad.relu", "nn.relu"), TypeError, "the pattern of a pattern entry is a DFPattern, "
         "got str in entry 'bad.relu'"),
        ((7, RELU), TypeError, "the name of a pattern entry is a str, got int in entry 7"),
        (("bad.relu", RELU, "f32"), TypeError, "the predicate of a pattern entry is a function, "
         "got str in entry 'bad.relu'"),
        (("bad.relu", RELU, None, {}), TypeError, "the attrs getter of a pattern entry is a "
         "function, got dict in entry 'bad.relu'"),
        (RELU, TypeError, "a pattern entry is a tuple, got CallPattern; use (name, pattern"),
        (("bad.relu",), ValueError, "a pattern entry has 2 to 4 fields, got 1: 'bad.relu'; use"),
        ((), ValueError, "a pattern entry has 2 to 4 fields, got 0; use"),
    ],
)  # fmt: skip
def test_a_bad_pattern_entry_is_seen_at_registration(entry, error, message):
    class Bad(backends.Backend):
        name = "bad"

        def patterns(self):
            return [("bad.good", RELU), entry]

    with pytest.raises(error) as caught:
        backends.register_backend(Bad())
    assert f"backend bad: {message}" in str(caught.value)
    assert backends.find_backend("bad") is None


def test_builtin_backends_are_listed():
    assert {"dnnl", "cblas", "mkl"} <= {backend.name for backend in backends.list_backends()}
    dnnl = backends.get_backend("dnnl")
    assert dnnl.kind == backends.GRAPH_LEVEL and dnnl.default_rule() == backends.GRAPH_LEVEL
    names = [entry[0] for entry in dnnl.patterns()]
    assert len(names) == len(set(names)) and "dnnl.conv2d_bias_sum_relu" in names
