# SPDX-License-Identifier: Apache-2.0
"""The current PassContext with some of it changed: what is not named stays as it is."""

import tvm
from tvm.ir.instrument import PassInstrument
from tvm.relay.collage.relay_util.changed_context import changed_context


class Silent(PassInstrument):
    """Watches a build, as a user's might."""


def everything_of(context):
    return {
        "level": context.opt_level,
        "required": [str(name) for name in context.required_pass],
        "disabled": [str(name) for name in context.disabled_pass],
        "config": {str(name): value for name, value in context.config.items()},
        "instruments": [each.handle.value for each in context.instruments],
    }


def of_the_user():
    return tvm.transform.PassContext(
        opt_level=1,
        required_pass=["FoldConstant"],
        disabled_pass=["FuseOps"],
        instruments=[Silent()],
        config={"relay.FuseOps.max_depth": 3, "tir.disable_vectorize": True},
    )


def test_nothing_named_changes_nothing():
    with of_the_user() as user:
        assert everything_of(changed_context()) == everything_of(user)


def test_entries_are_added_and_replaced():
    with of_the_user() as user:
        changed = changed_context({"relay.FuseOps.max_depth": 5, "tir.noalias": False})
        before, after = everything_of(user), everything_of(changed)
    config = {"relay.FuseOps.max_depth": 5, "tir.disable_vectorize": True, "tir.noalias": False}
    assert {str(name): int(value) for name, value in after.pop("config").items()} == config
    assert int(before.pop("config")["relay.FuseOps.max_depth"]) == 3, "the user's stays as it is"
    assert after == before


def test_a_level_and_instruments_take_the_place_of_those_there():
    with of_the_user() as user:
        [silent] = user.instruments
        with changed_context(opt_level=3, instruments=[]) as changed:
            assert (changed.opt_level, len(changed.instruments)) == (3, 0)
        with changed_context() as kept:
            assert kept.opt_level == 1 and kept.instruments[0].same_as(silent)
