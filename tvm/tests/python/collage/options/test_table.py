# SPDX-License-Identifier: Apache-2.0
"""One table of options: C++ defaults, Python fields, values in a PassContext and wrong ones."""

import dataclasses
import functools

import pytest
import tvm
from option_values import changed
from relay_text import make_backend, parse, partition
from tree import ROOT
from tvm.relay.collage import CollageOptions
from tvm.relay.collage.options import option_table
from tvm_collage.options import deciding, flag
from tvm_collage.words import Effort

DOCS = ROOT / "docs"
RELU = "def @main(%x: $T) { nn.relu(%x) }"


def context(**values):
    config = {f"relay.collage.{name}": value for name, value in values.items()}
    return tvm.transform.PassContext(config=config)


def test_the_table_is_the_fields_and_their_defaults():
    fields = dataclasses.asdict(CollageOptions())
    assert fields == {row.name: row.default for row in option_table()}
    assert list(fields)[:4] == [
        "tvm_max_depth",
        "byoc_max_depth",
        "byoc_fusion_style",
        "enable_collage",
    ]


def test_an_option_decides_which_plan_ships_unless_its_row_says_that_it_does_not():
    found = deciding(CollageOptions(seed=7))
    assert found["seed"] == 7 and {"guard_rounds", "tune", "measure_seconds", "verify"} <= {*found}
    shown_or_kept = {"progress", "report", "log_level", "store", "workers", "reuse_decision"}
    assert not shown_or_kept & {*found} and "enable_collage" not in found


def test_every_row_says_what_it_means_in_one_line():
    for name, value, meaning, takes in option_table():
        assert takes and "\n" not in takes, name
        assert meaning and "\n" not in meaning and not meaning.endswith("."), name
        assert f"{name} = {value!r}: {meaning}" in CollageOptions.__doc__


def test_defaults_are_of_the_types_that_they_look_like():
    defaults = CollageOptions()
    assert defaults.enable_collage is False and defaults.guard is True
    assert type(defaults.guard_rounds) is int and type(defaults.measure_seconds) is float
    assert defaults.byoc_fusion_style == [] and defaults.progress == "auto"


def test_current_reads_the_innermost_context():
    assert CollageOptions.current() == CollageOptions()
    with context(guard_rounds=7, measure_seconds=2, progress="json"):
        assert CollageOptions.current() == CollageOptions(
            guard_rounds=7, measure_seconds=2.0, progress="json"
        )
        with context(byoc_fusion_style=["dnnl.NoFusion"], tvm_max_depth=2):
            assert CollageOptions.current() == CollageOptions(
                byoc_fusion_style=["dnnl.NoFusion"], tvm_max_depth=2
            )
    assert CollageOptions.current() == CollageOptions()


def test_every_option_goes_into_a_config_and_comes_back():
    options = CollageOptions(**{row.name: changed(row.name, row.default) for row in option_table()})
    assert all(changed(row.name, row.default) != row.default for row in option_table())
    with tvm.transform.PassContext(config=options.to_config()):
        assert CollageOptions.current() == options


@pytest.mark.parametrize("effort", Effort)
def test_each_effort_is_read_as_a_word_from_its_text(effort):
    given = CollageOptions(effort=effort.value)
    assert given.effort is effort and given.searching.effort is effort
    assert given == CollageOptions(effort=effort)
    for config in (given.to_config(), {"relay.collage.effort": effort.value}):
        with tvm.transform.PassContext(config=config):
            assert CollageOptions.current().effort is effort
    assert CollageOptions().effort is Effort.NORMAL


def test_an_int_imm_of_older_scripts_is_taken():
    with context(enable_collage=tvm.tir.IntImm("bool", 1), seed=tvm.tir.IntImm("int32", 3)):
        assert CollageOptions.current() == CollageOptions(enable_collage=True, seed=3)


def test_a_misspelt_field_names_the_nearest():
    with pytest.raises(TypeError, match="there is no option 'guardd', did you mean guard?"):
        CollageOptions(guardd=1)


@pytest.mark.parametrize(
    "make, name, value, takes",
    [
        (context, "enable_collage", 1, "a bool"),
        (context, "enable_collage", "yes", "a bool"),
        (context, "guard_rounds", "x", "an int"),
        (context, "guard_rounds", 1.5, "an int"),
        (context, "guard_rounds", True, "an int"),
        (context, "measure_seconds", "a", "a float"),
        (context, "measure_seconds", False, "a float"),
        (context, "progress", 3, "a str"),
        (context, "progress", ["rich"], "a str"),
        (CollageOptions, "tvm_max_depth", "4", "an int"),
        (CollageOptions, "byoc_max_depth", True, "an int"),
        (CollageOptions, "byoc_fusion_style", "dnnl.NoFusion", "a list of str"),
        (CollageOptions, "byoc_fusion_style", [1], "a list of str"),
        (CollageOptions, "seed", None, "an int"),
    ],
)
def test_a_wrong_type_is_one_line_that_names_the_option(make, name, value, takes):
    with pytest.raises(TypeError) as caught:
        make(**{name: value})
    assert str(caught.value) == f"option relay.collage.{name} takes {takes}, got {value!r}"


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("tvm_max_depth", "x", "IntImm"),
        ("byoc_max_depth", [1], "IntImm"),
        ("byoc_fusion_style", "dnnl.NoFusion", "Array"),
    ],
)
def test_options_that_tvm_registers_itself_keep_its_own_error(name, value, expected):
    with pytest.raises(AttributeError) as caught:
        context(**{name: value})
    assert f"expect config relay.collage.{name} to have type {expected}" in str(caught.value)


def test_the_old_name_of_an_option_tells_the_new_one():
    """Others are nearer by their letters."""
    with pytest.raises(TypeError, match="no option 'search_seconds', did you mean time_limit?"):
        CollageOptions(search_seconds=1.0)
    new = "no option relay.collage.search_seconds: did you mean relay.collage.time_limit?"
    with pytest.raises(AttributeError, match=new):
        context(search_seconds=1.0)
    with pytest.raises(TypeError, match="did you mean graph_search_seconds?"):
        CollageOptions(grph_search_seconds=1.0)


def test_an_unknown_option_is_tvms_own_error():
    with pytest.raises(AttributeError, match=r"Invalid config option 'relay\.nope'"):
        tvm.transform.PassContext(config={"relay.nope": 1})
    with pytest.raises(TypeError, match="there is no option 'nope': docs/options.md"):
        CollageOptions(nope=1)


def test_an_unknown_option_of_a_context_is_told_by_the_nearest():
    near, far = ("gaurd", "did you mean relay.collage.guard?"), ("x" * 40, "docs/options.md")
    for name, hint in (near, far):
        with pytest.raises(AttributeError) as caught:
            context(guard=True, **{name: 1})
        text = str(caught.value)
        assert text.startswith(f"there is no option relay.collage.{name}: {hint}")
        assert caught.value.__suppress_context__ and caught.value.__cause__ is None
    with pytest.raises(AttributeError, match="did you mean relay.collage.seed"):
        tvm.transform.PassContext(3, None, None, None, {"relay.collage.sead": 1})


COUNT, COUNT_OR_0 = "an int from 1 to 1000000000", "an int from 0 to 1000000000"
SECONDS = "a number > 0 and <= 1000000"
STYLES = "a list of <backend>.<style> with a style of NoFusion, TVMFusion, ArbitraryFusion"
OUT_OF_RANGE = [
    ("tvm_max_depth", 0, COUNT),
    ("tvm_max_depth", 10**12, COUNT),
    ("tvm_max_depth", 2**32 + 4, COUNT),
    ("byoc_max_depth", -1, COUNT),
    ("byoc_max_depth", 10**9 + 1, COUNT),
    ("byoc_fusion_style", ["nonsense"], STYLES),
    ("byoc_fusion_style", ["dnnl"], STYLES),
    ("byoc_fusion_style", [".NoFusion"], STYLES),
    ("byoc_fusion_style", ["dnnl.NoFusion", "dnnl.Nonsense"], STYLES),
    ("max_candidates_per_node", 0, COUNT),
    ("max_exits", -1, COUNT_OR_0),
    ("region_cuts", -2, COUNT_OR_0),
    ("time_limit", -0.5, "a number >= 0 and <= 1000000"),
    ("time_limit", float("nan"), "a number >= 0 and <= 1000000"),
    ("effort", "slow", "one of quick, normal, exhaustive"),
    ("effort", "", "one of quick, normal, exhaustive"),
    ("guard_rounds", 0, COUNT),
    ("guard_seconds", 0.0, SECONDS),
    ("guard_memory_mb", -1, "an int from 0 to 1000000000"),
    ("guard_library_mb", -1, "an int from 0 to 1000000000"),
    ("graph_search", "grid", "one of none, evolutionary, local, random"),
    ("graph_search_population", 1, "an int from 2 to 64"),
    ("graph_search_population", 65, "an int from 2 to 64"),
    ("graph_search_trials", 0, COUNT),
    ("graph_search_seconds", 0.0, SECONDS),
    ("graph_search_seed", -1, "an int >= 0"),
    ("measure_seconds", 0.0, SECONDS),
    ("measure_seconds", float("nan"), SECONDS),
    ("measure_seconds", float("inf"), SECONDS),
    ("measure_timeout", -2.5, SECONDS),
    ("workers", -1, "an int from 0 to 1024"),
    ("workers", 1025, "an int from 0 to 1024"),
    ("seed", -1, "an int >= 0"),
    ("verify", "some", "one of all, external, none"),
    ("accuracy_budget", -0.01, "a number >= 0 and <= 1"),
    ("accuracy_budget", 1.5, "a number >= 0 and <= 1"),
    ("accuracy_budget", float("nan"), "a number >= 0 and <= 1"),
    ("progress", "loud", "one of auto, rich, lines, quiet, json"),
    ("log_level", "loud", "one of notset, debug, info, warning, error"),
    ("rpc_wait", 0.0, SECONDS),
    ("tune", -1, COUNT_OR_0),
    ("tune_patience", -1, COUNT_OR_0),
    ("tuner", "halide", "one of autotvm, ansor, metaschedule"),
    ("tune_model", "lgbm", "one of xgb, random"),
    ("tune_seconds", 0.0, SECONDS),
    ("placement_allow", ["machine", "x"], "a list of weights, version, machine, target, tuning"),
]


def test_each_option_with_a_range_is_refused_below():
    types = ("a bool", "a str", "a list of str")
    assert {name for name, _, _ in OUT_OF_RANGE} == {
        row.name for row in option_table() if row.takes not in types
    }


@pytest.mark.parametrize("name, value, takes", OUT_OF_RANGE)
def test_a_value_out_of_range_is_one_line_that_names_the_option(name, value, takes):
    """Of the pass alone, too."""
    host = [tvm.target.Target("llvm")]
    config = tvm.target.make_compilation_config(tvm.transform.PassContext.current(), host)
    run = functools.partial(tvm.relay.transform.CollagePartition(config), parse(RELU))
    for make in (CollageOptions.current, lambda: CollageOptions(**{name: value}), run):
        with context(**{name: value}), pytest.raises(ValueError) as caught:
            make()
        assert str(caught.value) == f"option relay.collage.{name} takes {takes}, got {value!r}"


def test_defaults_and_the_ends_of_ranges_are_allowed():
    ends = {
        "tvm_max_depth": (1, 10**9),
        "byoc_max_depth": (1, 10**9),
        "max_candidates_per_node": (1, 10**9),
        "max_exits": (0, 10**9),
        "region_cuts": (0, 10**9),
        "time_limit": (0.0, 1e6),
        "guard_rounds": (1, 10**9),
        "guard_seconds": (1e-6, 1e6),
        "measure_seconds": (1e-6, 1e6),
        "measure_timeout": (1e-6, 1e6),
        "workers": (0, 1024),
        "seed": (0, 2**63 - 1),
    }
    for values in zip(*ends.values(), strict=True):
        options = CollageOptions(**dict(zip(ends, values, strict=True)))
        with tvm.transform.PassContext(config=options.to_config()):
            assert CollageOptions.current() == options


def test_the_largest_depths_and_counts_partition():
    """They reach arithmetic on ints of 32 bits."""
    mod = parse("def @main(%x: $T) { exp(nn.relu(tanh(%x))) }")
    backend = make_backend("options_test", [])
    most = dict.fromkeys(("tvm_max_depth", "byoc_max_depth", "max_candidates_per_node"), 10**9)
    most |= {"max_exits": 10**9, "region_cuts": 10**9}
    found = partition(mod, [backend], {"llvm": 1}, **most)
    assert [var.name_hint for var in found.get_global_vars()] == ["main"]


def test_a_style_of_a_backend_that_is_no_target_is_a_warning_once(caplog):
    mod = parse(RELU)
    backend = make_backend("options_test_styled", [])
    styles = ["options_test_absent.NoFusion", "options_test_styled.NoFusion"]
    for _ in range(2):
        partition(mod, [backend], {"llvm": 1}, byoc_fusion_style=styles)
    text = caplog.text
    assert text.count("option relay.collage.byoc_fusion_style has ") == 1
    assert (
        "has options_test_absent.NoFusion, but options_test_absent is no external target of this "
        "build: it has no effect" in text
    )


def test_the_docs_page_has_every_option_as_the_table_does():
    lines = (DOCS / "options.md").read_text().splitlines()
    cells = [line.strip("|").split(" | ") for line in lines if line.startswith("| `")]
    found = {row[0].strip(" `"): [cell.strip() for cell in row[1:]] for row in cells}
    assert list(found) == [row.name for row in option_table()]
    for row in option_table():
        called, takes, default, meaning, page = found[row.name]
        is_flag = row.name != "enable_collage"
        assert called == (f"`{flag('', row.name)}`" if is_flag else "-")
        assert (takes, default, meaning) == (row.takes, f"`{row.default!r}`", row.meaning)
        file = page.split("](")[1].split(")")[0]
        assert f"`{row.name}`" in (DOCS / file).read_text(), f"{file} does not explain {row.name}"
