# SPDX-License-Identifier: Apache-2.0
"""Sub-graphs as Relay: the module that a candidate is measured as, and what rewriting keeps."""

import pytest
import tvm
from relay_text import (
    assert_equal,
    assert_same_outputs,
    composite_text,
    make_backend,
    parse,
    part_text,
    partition,
    random_args,
    run,
    undo_partition,
)
from tvm import relay
from tvm.relay.collage import CostEstimator, MockCostEstimator
from tvm.relay.collage.measure import Cost
from tvm.relay.collage.relay_util.walk import nodes_of
from tvm.relay.dataflow_pattern import is_op, is_tuple, wildcard

NAME = "rewrite_test"
TABLE = [
    (f"{NAME}.relu", is_op("nn.relu")(wildcard())),
    (f"{NAME}.add", is_op("add")(wildcard(), wildcard())),
    (f"{NAME}.concatenate", is_op("concatenate")(wildcard())),
]
CHEAP = {"llvm": 10, NAME: 1}


@pytest.fixture(scope="module")
def backend():
    return make_backend(NAME, TABLE)


class Recorder(MockCostEstimator):
    """Keeps each module that it is asked about, by label."""

    def __init__(self):
        super().__init__(CHEAP)
        self.asked = {}

    def estimate_batch(self, mods, targets, labels):
        self.asked.update(zip(labels, zip(mods, targets, strict=True), strict=True))
        return super().estimate_batch(mods, targets, labels)


def candidates(text, backend):
    recorder = Recorder()
    partition(parse(text), [backend], recorder)
    return {label: mod for label, (mod, _) in recorder.asked.items()}


def test_a_candidate_for_tvm_is_mains_body(backend):
    found = candidates("def @main(%x: $T) { tanh(nn.relu(%x)) }", backend)
    assert_equal(found["llvm(nn.relu, tanh)"], "def @main(%a: $T) -> $T { tanh(nn.relu(%a)) }")


def test_a_candidate_for_a_backend_is_a_function_that_main_calls(backend):
    found = candidates("def @main(%x: $T) { tanh(nn.relu(%x)) }", backend)
    assert_equal(
        found[f"{NAME}(nn.relu)"],
        part_text(NAME, "nn_relu", composite_text(f"{NAME}.relu", "nn.relu(%q)"))
        + f"def @main(%a: $T) -> $T {{ @collage_{NAME}_nn_relu(%a) }}",
    )


def test_tensors_are_fed_where_the_candidate_reads_a_tuple(backend):
    found = candidates("def @main(%t: ($T, $T)) { nn.relu(concatenate(%t)) }", backend)
    mod = found[f"{NAME}(concatenate)"]
    assert [str(p.name_hint) for p in mod["main"].params] == ["input_0", "input_1"]
    assert_equal(
        undo_partition(mod),
        "def @main(%a: $T, %b: $T) -> Tensor[(4, 4), float32] { %0 = (%a, %b); concatenate(%0) }",
    )


def test_each_candidate_is_asked_for_on_its_own_target(backend):
    recorder = Recorder()
    partition(parse("def @main(%x: $T) { tanh(nn.relu(%x)) }"), [backend], recorder)
    assert recorder.asked[f"{NAME}(nn.relu)"][1].kind.name == NAME
    assert recorder.asked["llvm(nn.relu, tanh)"][1].kind.name == "llvm"


def test_every_candidate_is_a_module_that_runs(backend):
    text = """def @main(%x: $T, %t: ($T, $T)) {
      %0 = nn.relu(%x);
      %1 = (tanh(%0), %t.1, %0);
      add(nn.relu(concatenate(%1)), 1f)
    }"""
    found = candidates(text, backend)
    assert len(found) > 6
    # Those of TVM and of the backend are the same without their functions.
    undone = {tvm.ir.structural_hash(mod): mod for mod in map(undo_partition, found.values())}
    assert len(undone) > 3
    for mod in undone.values():
        assert run(mod, random_args(mod["main"]))


def test_parameters_come_in_the_order_in_which_the_body_reads_them(backend):
    # %y is the earlier node, and the later argument.
    text = "def @main(%y: $T, %x: $T) -> $T { tanh(add(%x, %y)) }"
    assert_equal(
        partition(parse(text), [backend], CHEAP),
        f"""
        def @collage_{NAME}_add(%a: $T, %b: $T, Primitive=1, Compiler="{NAME}",
            global_symbol="collage_{NAME}_add") -> $T {{
          %0 = fn (%p: $T, %q: $T, Composite="{NAME}.add") -> $T {{ add(%p, %q) }};
          %0(%a, %b)
        }}
        def @main(%y: $T, %x: $T) -> $T {{ tanh(@collage_{NAME}_add(%x, %y)) }}
        """,
    )


def test_constants_stay_bound_in_the_part(backend):
    result = partition(parse("def @main(%x: $T) { tanh(add(%x, 2f)) }"), [backend], CHEAP)
    part = result[f"collage_{NAME}_add"]
    assert len(part.params) == 1
    assert_same_outputs(parse("def @main(%x: $T) { tanh(add(%x, 2f)) }"), result)


def test_attributes_of_calls_around_a_part_are_kept(backend):
    text = "def @main(%x: $T) { nn.softmax(nn.relu(%x), axis=0) }"
    result = partition(parse(text), [backend], CHEAP)
    assert result["main"].body.attrs.axis == 0


def test_attributes_of_the_function_and_its_type_are_kept(backend):
    text = 'def @main(%x: $T, my_attr="kept") -> $T { nn.relu(%x) }'
    main = partition(parse(text), [backend], CHEAP)["main"]
    assert str(main.attrs["my_attr"]) == "kept"
    assert main.ret_type == relay.TensorType((2, 4), "float32")


def test_type_definitions_and_module_attributes_are_kept(backend):
    mod = parse("type Pair[A] { Both(A, A) }\ndef @main(%x: $T) -> $T { nn.relu(%x) }")
    mod = mod.with_attr("my_attr", tvm.runtime.String("kept"))
    result = partition(mod, [backend], CHEAP)
    assert str(result.get_attr("my_attr")) == "kept"
    assert [var.name_hint for var in result.type_definitions] == ["Pair"]


def test_several_results_of_a_part_come_as_a_tuple(backend):
    text = """def @main(%x: $T) -> ($T, $T) {
      %0 = nn.relu(%x);
      %1 = add(%0, %0);
      (tanh(%0), %1)
    }"""
    result = partition(parse(text), [backend], CHEAP, merge_parts=True)
    [part] = [f for v, f in result.functions.items() if v.name_hint != "main"]
    assert isinstance(part.ret_type, relay.TupleType)
    assert_same_outputs(parse(text), result)


def test_a_tuple_among_several_results_of_a_part_is_taken_apart():
    """TVM's executors know no tuple in a tuple as the result of a call."""
    name = f"{NAME}_split"
    table = [(f"{name}.{op}", is_op(op)(wildcard())) for op in ("nn.relu", "split")]
    half = "Tensor[(1, 4), float32]"
    text = f"""def @main(%x: $T) -> ($T, {half}, $T) {{
      %0 = nn.relu(%x);
      %1 = split(%0, indices_or_sections=2);
      (tanh(%0), tanh(%1.1), concatenate(%1))
    }}"""
    result = partition(
        parse(text), [make_backend(name, table)], {"llvm": 10, name: 1}, merge_parts=True
    )
    [part] = [f for v, f in result.functions.items() if v.name_hint != "main"]
    assert [str(each) for each in part.ret_type.fields] == [
        str(each.checked_type) for each in nodes_of(part.body, relay.Tuple)[-1].fields
    ]
    assert all(isinstance(each, relay.TensorType) for each in part.ret_type.fields)
    [call] = [c for c in nodes_of(result["main"], relay.Call) if isinstance(c.op, relay.GlobalVar)]
    read = [each.tuple_value for each in nodes_of(result["main"], relay.TupleGetItem)]
    assert read and all(each.same_as(call) for each in read), "no tuple is made to be read from"
    assert_same_outputs(parse(text), result)


def test_a_tuple_in_a_tuple_that_is_a_part_s_one_result_is_taken_apart():
    name = f"{NAME}_pair"
    pair = is_tuple([is_op("nn.relu")(wildcard()), is_op("split")(wildcard())])
    half = "Tensor[(1, 4), float32]"
    text = f"""def @main(%x: $T) -> ($T, ({half}, {half})) {{
      (nn.relu(%x), split(%x, indices_or_sections=2))
    }}"""
    backend = make_backend(name, [(f"{name}.pair", pair)])
    result = partition(parse(text), [backend], {"llvm": 10, name: 1})
    [part] = [f for v, f in result.functions.items() if v.name_hint != "main"]
    assert [len(each.shape) for each in part.ret_type.fields] == [2, 2, 2], "three tensors"
    main = result["main"]
    assert main.ret_type == parse(text)["main"].ret_type
    [call] = [c for c in nodes_of(main, relay.Call) if isinstance(c.op, relay.GlobalVar)]
    assert {each.index for each in nodes_of(main, relay.TupleGetItem)} == {0, 1, 2}
    assert all(each.tuple_value.same_as(call) for each in nodes_of(main, relay.TupleGetItem))
    assert_same_outputs(parse(text), result)


def test_a_part_is_called_once_however_often_it_is_read(backend):
    text = "def @main(%x: $T) -> $T { %0 = nn.relu(%x); multiply(tanh(%0), exp(%0)) }"
    main = partition(parse(text), [backend], CHEAP)["main"]
    calls = nodes_of(main, relay.Call)
    assert sum(isinstance(call.op, relay.GlobalVar) for call in calls) == 1


def test_estimators_get_typed_modules(backend):
    seen = []

    class Types(CostEstimator):
        def estimate_batch(self, mods, targets, labels):
            seen.extend(mods)
            return [Cost.estimated(1.0)] * len(mods)

    partition(parse("def @main(%x: $T) { tanh(nn.relu(%x)) }"), [backend], Types())
    assert seen
    for mod in seen:
        assert mod["main"].body.checked_type == mod["main"].checked_type.ret_type
