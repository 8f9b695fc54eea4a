# SPDX-License-Identifier: Apache-2.0
"""One table of options: C++ defaults, Python fields, values in a PassContext and wrong ones."""

import dataclasses

import pytest
import tvm
from tvm.relay.collage import CollageOptions, optimize
from tvm.relay.collage.options import check_options, option_table


def context(**values):
    config = {f"relay.collage.{name}": value for name, value in values.items()}
    return tvm.transform.PassContext(config=config)


def test_the_table_is_the_fields_and_their_defaults():
    fields = dataclasses.asdict(CollageOptions())
    assert fields == {name: default for name, default, _ in option_table()}
    assert list(fields)[:4] == [
        "tvm_max_depth",
        "byoc_max_depth",
        "byoc_fusion_style",
        "enable_collage",
    ]


def test_every_row_says_what_it_means_in_one_line():
    for name, value, meaning in option_table():
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


def changed(value):
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, list):
        return ["dnnl.TVMFusion", "other.NoFusion"]
    return value + 1 if isinstance(value, (int, float)) else value + "x"


def test_every_option_goes_into_a_config_and_comes_back():
    options = CollageOptions(
        **{name: changed(default) for name, default, _ in option_table()},
    )
    with tvm.transform.PassContext(config=options.to_config()):
        assert CollageOptions.current() == options


def test_an_int_imm_of_older_scripts_is_taken():
    with context(enable_collage=tvm.tir.IntImm("bool", 1), seed=tvm.tir.IntImm("int32", 3)):
        assert CollageOptions.current() == CollageOptions(enable_collage=True, seed=3)


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("enable_collage", 1, "takes a bool, got 1"),
        ("enable_collage", "yes", "takes a bool, got 'yes'"),
        ("guard_rounds", "x", "takes an int, got 'x'"),
        ("guard_rounds", 1.5, "takes an int, got 1.5"),
        ("guard_rounds", True, "takes an int, got True"),
        ("measure_seconds", "a", "takes a float, got 'a'"),
        ("measure_seconds", False, "takes a float, got False"),
        ("progress", 3, "takes a str, got 3"),
        ("progress", ["rich"], "takes a str, got ['rich']"),
    ],
)
def test_a_wrong_type_is_one_line_that_names_the_option(name, value, message):
    with pytest.raises(TypeError) as caught:
        context(**{name: value})
    assert str(caught.value) == f"TypeError: option relay.collage.{name} {message}"


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


def test_an_unknown_option_is_tvms_own_error():
    with pytest.raises(AttributeError, match=r"Invalid config option 'relay\.collage\.nope'"):
        context(nope=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nope'"):
        CollageOptions(nope=1)


@pytest.mark.parametrize(
    "name, value, takes",
    [
        ("tvm_max_depth", 0, "an int >= 1"),
        ("byoc_max_depth", -1, "an int >= 1"),
        ("max_candidates_per_node", 0, "an int >= 1"),
        ("guard_rounds", 0, "an int >= 1"),
        ("measure_seconds", 0.0, "a number > 0"),
        ("measure_seconds", float("nan"), "a number > 0"),
        ("measure_timeout", -2.5, "a number > 0"),
        ("workers", -1, "an int >= 0"),
        ("seed", -1, "an int >= 0"),
        ("progress", "loud", "one of auto, rich, quiet, json"),
    ],
)
def test_a_value_out_of_range_is_one_line_that_names_the_option(name, value, takes):
    with pytest.raises(ValueError) as caught:
        check_options(CollageOptions(**{name: value}))
    assert str(caught.value) == f"option relay.collage.{name} takes {takes}, got {value!r}"


def test_defaults_and_the_ends_of_ranges_are_allowed():
    check_options(CollageOptions())
    check_options(
        CollageOptions(
            tvm_max_depth=1,
            byoc_max_depth=1,
            max_candidates_per_node=1,
            guard_rounds=1,
            measure_seconds=1e-6,
            workers=0,
            seed=0,
            progress="json",
        )
    )


def test_optimize_checks_ranges_first():
    with context(guard_rounds=0), pytest.raises(ValueError, match="guard_rounds takes an int >= 1"):
        optimize(tvm.IRModule({}), targets="llvm")
