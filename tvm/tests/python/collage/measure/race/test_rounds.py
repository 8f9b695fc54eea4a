# SPDX-License-Identifier: Apache-2.0
"""Rounds of a comparison on samples and a clock of the test's own."""

import pytest
from tvm.relay.collage.measure.race.rounds import (
    MOST_FURTHER,
    EarlyEnd,
    Enough,
    Further,
    RoundOptions,
    run_rounds,
)


class Machine:
    """Seconds by name, or by name and round; each sample takes a second of the clock."""

    def __init__(self, **seconds):
        self.seconds = seconds
        self.log, self.left, self.shown = [], [], []
        self.now = 0.0

    def sample(self, name):
        self.now += 1.0
        self.log.append(name)
        value = self.seconds[name]
        return value(self.log.count(name)) if callable(value) else value

    def run(self, rounds, **options):
        return run_rounds(
            list(self.seconds),
            self.sample,
            lambda *why: self.left.append(why),
            RoundOptions(rounds=rounds, on_round=lambda *step: self.shown.append(step), **options),
            clock=lambda: self.now,
        )


def test_all_run_once_a_round_in_changing_order():
    machine = Machine(a=1.0, b=2.0, c=3.0)
    samples = machine.run(10, seed=3)
    assert samples == {"a": [1.0] * 10, "b": [2.0] * 10, "c": [3.0] * 10}
    orders = ["".join(machine.log[k : k + 3]) for k in range(0, 30, 3)]
    assert {"".join(sorted(each)) for each in orders} == {"abc"} and len(set(orders)) > 2
    assert machine.shown == [(k, 10) for k in range(11)]
    again = Machine(a=1.0, b=2.0, c=3.0)
    again.run(10, seed=3)
    assert again.log == machine.log


@pytest.mark.parametrize(("seconds", "rounds"), [(0.0, 1), (5.0, 3), (1e6, 24)])
def test_no_round_but_the_first_begins_after_its_time(seconds, rounds):
    machine = Machine(a=1.0, b=1.0)
    further = Further(lambda running: ["a", "b"], 1e6)
    samples = machine.run(3, seconds=seconds, further=further)
    assert {name: len(each) for name, each in samples.items()} == {"a": rounds, "b": rounds}


@pytest.mark.parametrize(("seconds", "rounds"), [(0.0, 4), (9.0, 5), (1e6, 40)])
def test_after_enough_rounds_none_begins_when_their_time_is_over(seconds, rounds):
    machine = Machine(a=1.0, b=1.0)
    further = Further(lambda running: ["a", "b"], 1e6)
    samples = machine.run(5, enough=Enough(4, seconds), further=further)
    assert {len(each) for each in samples.values()} == {rounds}
    machine = Machine(a=1.0, b=1.0)
    samples = machine.run(5, enough=Enough(4, seconds), seconds=3.0, further=further)
    assert {len(each) for each in samples.values()} == {2}, "the hard end"


SLOW, SLOWER = (
    "given up as far too slow after 6 rounds",
    "given up as clearly slower after 3 rounds",
)


@pytest.mark.parametrize(
    "seconds, rounds, options, counts, left",
    [
        # Who fails does not leave.
        ({"a": 1.0, "b": lambda n: 2.0 if n < 4 else None}, 6, {}, [6, 3], []),
        ({"a": 1.0, "b": 2.9, "c": 3.1}, 9, {"give_up_ratio": 3.0}, [9, 9, 6], [("c", SLOW)]),
        (  # who stays has all rounds however slow
            {"a": 1.0, "b": 9.0, "c": 99.0},
            12,
            {"give_up_ratio": 2.0, "stays": ["c", "nobody"]},
            [12, 6, 12],
            [("b", SLOW)],
        ),
        (  # who is clearly slower each time goes early, not who is so but once, or about as fast
            {"a": 1.0, "b": 1.3, "c": lambda n: 1.2 if n == 2 else 9.0, "d": 1.2, "e": 1.3},
            6,
            {"early_end": EarlyEnd(3, 1.25), "stays": ["e"]},
            [6, 3, 6, 6, 6],
            [("b", SLOWER)],
        ),
        # In the first rounds b seems 4 times slower, but for one of them: that is noise.
        ({"a": 1, "b": lambda n: 1 if n in (3, 7) else 4}, 9, {"give_up_ratio": 3}, [9, 9], []),
        ({"a": 1.0, "b": 1.0}, 3, {"further": Further(list, 1e9)}, [3 * MOST_FURTHER] * 2, []),
        # Two seconds a round: further ones end with their seconds, but not amid a round.
        ({"a": 1.0, "b": 1.0}, 5, {"further": Further(list, 5.0)}, [8, 8], []),
        ({"a": 1.0}, 5, {"further": Further(list, 1e-9)}, [5], []),
        # Nothing is in question.
        ({"a": 1.0, "b": 1.0}, 4, {"further": Further(lambda _: [], 1e9)}, [4, 4], []),
        ({"a": 1.0, "b": 1.0}, 4, {"further": Further(lambda _: ["a"], 1e9)}, [4, 4], []),
    ],
)
def test_who_has_how_many_rounds(seconds, rounds, options, counts, left):
    machine = Machine(**seconds)
    samples = machine.run(rounds, **options)
    assert dict(zip(seconds, counts, strict=True)) == {k: len(v) for k, v in samples.items()}
    assert machine.left == left


def test_rounds_double_for_those_in_question():
    asked = []

    def in_question(samples):
        asked.append({name: len(seconds) for name, seconds in samples.items()})
        return ["a", "b"] if len(asked) < 3 else []

    machine = Machine(a=1.0, b=1.0, c=1.1)
    samples = machine.run(5, further=Further(in_question, 1e9))
    assert asked == [{"a": 5, "b": 5, "c": 5}, {"a": 10, "b": 10}, {"a": 20, "b": 20}]
    assert {name: len(seconds) for name, seconds in samples.items()} == {"a": 20, "b": 20, "c": 5}
    assert machine.left == [("c", "out of question after 5 rounds")]
    assert machine.shown[5:7] == [(5, 5), (6, 10)] and machine.shown[-1] == (20, 20)


def test_all_may_fail():
    machine = Machine(a=lambda n: None)
    asked = []
    samples = machine.run(
        3, give_up_ratio=3.0, further=Further(lambda s: asked.append(s) or s, 1e9)
    )
    assert samples == {"a": []} and asked == []
