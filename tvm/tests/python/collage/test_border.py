# SPDX-License-Identifier: Apache-2.0
"""All that C++ and Python tell each other follows one schema, and each reads what the other tells.

The schema is made of Python's records (tools/border_schema.py). Every message that C++ sends is
overheard here and must have the schema's fields, no more and no fewer. Of every message that Python
sends each field is taken away in turn, and C++ must miss it by its name.
"""

import contextlib
import functools
import json
from concurrent.futures import ThreadPoolExecutor

import border_schema
import pytest
import tvm
from json_schema import errors
from onednn_nets import constant, function_of, hand_placed
from relay_text import HOST, make_backend
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import rules
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.estimators import CostEstimator
from tvm.relay.collage.estimators.calibration import SHIPPED
from tvm.relay.collage.estimators.profiles import Profiles
from tvm.relay.collage.estimators.work import work_of_module
from tvm.relay.collage.measure import Cost
from tvm.relay.collage.measure.profiler.plan_kernels import calls_with_work
from tvm.relay.collage.plans.graph_search.space import PlanSpace, plan_again
from tvm.relay.collage.plans.placement.replay import (
    describe_functions,
    part_modules,
    placed_parts,
    rewrite,
)
from tvm.relay.collage.plans.run_pass import partition
from tvm.relay.collage.tvmc.targets import StockTargetKind
from tvm.relay.dataflow_pattern import is_constant, is_op, wildcard

SCHEMA = json.loads(border_schema.FILE.read_text())
NAME = "border_test"
SENT_BY_CPP = [message.name for message in border_schema.FROM_CPP]
SENT_BY_PYTHON = [message.name for message in border_schema.FROM_PYTHON]
# C++ writes the costs of placed parts and does not read them.
PLACED = ("collage.ApplyPlacement", "collage.PartModules")

CONV = is_op("nn.conv2d")(wildcard(), is_constant())


class Wire:
    """Global functions of both sides that pass texts on: it keeps each by its message, and changes
    those of one message where it is told how."""

    def __init__(self):
        self.texts = {name: [] for name in SENT_BY_CPP + SENT_BY_PYTHON}
        self.changed, self.change = "", None

    def hear(self, name, text):
        if name == self.changed:
            text = self.change(str(text))
        self.texts[name].append(json.loads(str(text)))
        return text

    def argument(self, name, place):
        """Pass on calls of a global function of C++ that gets a message."""

        def call(function, *args):
            args = list(args)
            args[place] = self.hear(name, args[place])
            return function(*args)

        return call

    def answer(self, name):
        """Pass on calls of a global function that answers with a message."""
        return lambda function, *args: self.hear(name, function(*args))

    def estimator(self, make, functions):
        """Pass on what an estimator is asked and told, and what it answers."""
        heard = {"observe": self._observe(functions["observe"])}
        for name in ("bound", "estimate", "foresee", "price", "transition"):
            if name in functions:
                heard[name] = self._asked(name, functions[name])
        return make({**dict(functions), **heard})

    def _asked(self, name, function):
        def call(*args):
            if f"estimator.{name}: questions" in self.texts:
                args = (self.hear(f"estimator.{name}: questions", args[0]), *args[1:])
            return self.hear(f"estimator.{name}: answer", function(*args))

        return call

    def _observe(self, function):
        def call(report, *replan):
            self.hear("estimator.observe: report", report)
            graph = json.loads(str(report)).get("graph_text")
            if graph:
                self.hear("estimator.observe: graph_text", graph)
            function(report, *map(self._replan, replan))

        return call

    def _replan(self, function):
        return lambda request: self.hear(
            "replan: answer", function(self.hear("replan: request", request))
        )


@contextlib.contextmanager
def overheard():
    """A Wire between the two sides."""
    wire = Wire()
    between = {"collage.MakeCostEstimator": wire.estimator}
    for name in SENT_BY_CPP:
        between[name] = wire.answer(name)
    for name in SENT_BY_PYTHON:
        between[name] = wire.argument(name, 1 if name == "collage.onednn.create" else -1)
    between["tvm.relay.collage.pass_options"] = wire.answer("tvm.relay.collage.pass_options")
    originals = {
        name: tvm.get_global_func(name) for name in between if tvm.get_global_func(name, True)
    }

    def replacement(name):
        return lambda *args: between[name](originals[name], *args)

    try:
        for name in originals:
            tvm.register_func(name, replacement(name), override=True)
        yield wire
    finally:
        for name, function in originals.items():
            tvm.register_func(name, function, override=True)


class Priced(CostEstimator):
    """An estimator that answers all that the pass can ask without a module."""

    def price_batch(self, signatures, works, targets):
        return [
            Cost.given(3.0 if target.kind.name == HOST else 1.0 + work.num_calls)
            for work, target in zip(works, targets, strict=True)
        ]

    def transition_seconds(self, types, target):
        return [1e-3] * len(types)


class Measured(CostEstimator):
    """An estimator that answers by modules, of which some fail, and knows bounds."""

    def estimate_batch(self, mods, targets, labels):
        return [
            Cost.failed("crashed", "of signal 11") if "exp" in label else Cost.given(1.0)
            for label in labels
        ]

    def least_seconds(self, works, targets, host):
        return [0.5] * len(works)

    def transition_seconds(self, types, target):
        return [1e-3] * len(types)


def foreseen():
    """Measured, beside what a profile of each target foresees."""
    return Measured(profiles=Profiles({NAME: {0: 1.0}}, SHIPPED, rival_seconds=9.0))


@pytest.fixture(scope="module")
def net():
    """Two convolutions, which a backend and TVM can run, around what the backend turns down; and a
    function that the pass skips."""
    table = [
        (f"{NAME}.conv", CONV, lambda call: True, lambda call: {"groups": int(call.attrs.groups)}),
        (f"{NAME}.relu", is_op("nn.relu")(wildcard()), lambda call: "it has no relu"),
    ]
    make_backend(NAME, table)
    x = relay.var("x", shape=(1, 8, 6, 6))
    weight = constant(1, 8, 8, 3, 3)
    conv = lambda data: relay.nn.conv2d(data, weight, padding=(1, 1))  # noqa: E731
    mod = tvm.IRModule.from_expr(function_of(conv(relay.exp(relay.nn.relu(conv(x))))))
    y = relay.var("y", shape=(2,))
    skipped = relay.Function([y], relay.exp(y)).with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    mod["skipped"] = skipped
    return relay.transform.InferType()(mod)


def run_pass(mod, kind=Priced):
    estimator = kind()
    estimator.replans = {}
    partition(mod, parse_targets([HOST, NAME]), estimator)
    return estimator


@functools.cache
def plan(mod):
    replans = run_pass(mod).replans
    return {name: placed_parts(plan_again(replan).parts) for name, replan in replans.items()}


def search_plans(mod):
    PlanSpace(run_pass(mod).replans, HOST)


def is_valid(mod):
    graph = collage.dataflow_graph(mod["main"])
    graph.sub_graph(graph.placeable).is_valid()


def compile_part():
    x = relay.var("x", shape=(1, 4, 6, 6))
    conv = relay.nn.conv2d(x, constant(1, 4, 4, 3, 3), padding=(1, 1))
    body = relay.nn.relu(relay.add(relay.sigmoid(conv), relay.var("y", shape=(1, 4, 6, 6))))
    get_backend("dnnl").compile(hand_placed(function_of(body))["dnnl_part"])


def look(mod):
    """Ask C++ for all that it tells without the pass."""
    graph = collage.dataflow_graph(mod["main"])
    graph.Summary()
    list(graph)
    assert collage.find_matches(CONV, graph)
    assert collage.refusals(mod, [HOST, NAME])
    for spec in collage.partition_specs([HOST, NAME]):
        spec.Summary()
    for candidate in collage.candidates(mod, [HOST, NAME], Priced()):
        candidate.Summary()
        candidate.sub_graph.Summary()
    describe_functions(mod)
    work_of_module(mod)
    calls_with_work(mod)
    tvm.get_global_func("collage.TensorTypeJson")(mod["main"].params[0].checked_type)
    tvm.get_global_func("collage.TensorTypeJson")(mod["main"].checked_type)
    run_pass(mod)
    tvm.get_global_func("collage.LastPhases")()
    kinds = json.loads(tvm.get_global_func("collage.StockTargetKinds")())
    assert HOST in [StockTargetKind(**fields).name for fields in kinds]


# What has Python send each of its messages.
SCENES = {
    "collage.ApplyPlacement": lambda mod: rewrite(mod, plan(mod)),
    "collage.MakeBackendRule": lambda mod: collage.partition_specs([HOST, NAME]),
    "collage.PartModules": lambda mod: part_modules(mod, plan(mod)),
    "collage.onednn.create": lambda mod: compile_part(),
    "collage.rules.Combine": lambda mod: rules.Combine(rules.Glue(), [rules.JoinAnything()]),
    "collage.rules.OnlyValid": lambda mod: rules.OnlyValid(rules.Glue()),
    "collage.rules.Region": lambda mod: rules.Region(rules.Glue()),
    "collage.rules.Tvm": lambda mod: collage.partition_specs([HOST, NAME]),
    "collage.view.WhyInvalid": is_valid,
    "estimator.bound: answer": lambda mod: run_pass(mod, Measured),
    "estimator.estimate: answer": lambda mod: run_pass(mod, Measured),
    "estimator.foresee: answer": lambda mod: run_pass(mod, foreseen),
    "estimator.price: answer": run_pass,
    "estimator.transition: answer": run_pass,
    "replan: request": search_plans,
    "tvm.relay.collage.pass_options": run_pass,
}


def act(scene, mod):
    """Run a scene in a new thread, where C++ looks its global functions up anew."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(scene, mod).result()


@pytest.fixture(scope="module")
def said(net):
    """Every message, by its name the JSON values that were sent."""
    with overheard() as wire:
        for scene in {*SCENES.values(), look}:
            act(scene, net)
    return wire.texts


def walk(schema, value, visit):
    """Visit each record in a value with its name in the schema."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        visit(name, value)
        schema = SCHEMA["$defs"][name]
    for option in schema.get("anyOf", []):
        if not errors(option, value, SCHEMA):
            walk(option, value, visit)
    if isinstance(value, list) and "items" in schema:
        for item in value:
            walk(schema["items"], item, visit)
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        for key, item in value.items():
            other = schema.get("additionalProperties")
            walk(fields.get(key, other or {}), item, visit)


def records_of(schema):
    """Return the names of all records that a schema can have, those inside of others too."""
    found, open_texts = set(), [json.dumps(schema)]
    while open_texts:
        text = open_texts.pop()
        for name, record in SCHEMA["$defs"].items():
            if f'"#/$defs/{name}"' in text and name not in found:
                found.add(name)
                open_texts.append(json.dumps(record))
    return found


def test_the_file_is_what_pythons_records_say():
    assert border_schema.FILE.read_text() == border_schema.text(), (
        "run tools/border_schema.py --write, then change C++"
    )


@pytest.mark.parametrize("name", SENT_BY_CPP + SENT_BY_PYTHON)
def test_what_is_sent_has_the_fields_of_the_schema(name, said):
    schema, seen = SCHEMA["properties"][name], set()
    assert said[name]
    for value in said[name]:
        assert errors(schema, value, SCHEMA) == []
        walk(schema, value, lambda record, _: seen.add(record))
    assert seen == records_of(schema), "a record that is not sent here may have any fields"


def fields_that_cpp_reads():
    for name in SENT_BY_PYTHON:
        for record in sorted(records_of(SCHEMA["properties"][name])):
            for field in SCHEMA["$defs"][record]["required"]:
                is_cost = record == "PartCost" or field == "cost"
                if not (name in PLACED and is_cost):
                    yield name, record, field


@pytest.mark.parametrize("name, record, field", fields_that_cpp_reads())
def test_cpp_misses_each_field(name, record, field, net):
    def without(text):
        value = json.loads(text)
        walk(
            SCHEMA["properties"][name],
            value,
            lambda at, each: found.append(each) if at == record and field in each else None,
        )
        for each in found:
            del each[field]
        return json.dumps(value)

    found = []
    with overheard() as wire:
        wire.changed, wire.change = name, without
        with pytest.raises(Exception, match=rf"(JSON lacks the|Missing) field \"?{field}\b"):
            act(SCENES[name], net)


@pytest.mark.parametrize("record", ["PartitionDescription", "NodeDescription", "PostOpDescription"])
def test_the_runtime_knows_no_other_fields_of_a_description(record, net):
    """Those that a description may lack, too: it names all that it knows."""

    def with_another(text):
        value = json.loads(text)
        walk(
            SCHEMA["properties"]["collage.onednn.create"],
            value,
            lambda name, each: name == record and each.update(another=1),
        )
        return json.dumps(value)

    with overheard() as wire:
        wire.changed, wire.change = "collage.onednn.create", with_another
        with pytest.raises(ValueError, match="Unknown field another") as error:
            compile_part()
    known = str(error.value).partition("candidates are:")[2].splitlines()[0]
    assert sorted(known.replace('"', "").split()) == sorted(SCHEMA["$defs"][record]["properties"])
