# SPDX-License-Identifier: Apache-2.0
"""Rounds of a comparison on samples and a clock of the test's own."""

import pytest
from tvm.relay.collage.measure.race.rounds import (
    MOST_FURTHER,
    EarlyEnd,
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


def test_who_fails_is_out():
    machine = Machine(a=1.0, b=lambda n: 2.0 if n < 4 else None)
    assert machine.run(6) == {"a": [1.0] * 6, "b": [2.0] * 3}
    assert machine.left == []  # it did not leave: it failed


def test_who_is_far_too_slow_is_given_up():
    machine = Machine(a=1.0, b=2.9, c=3.1)
    assert {k: len(v) for k, v in machine.run(9, give_up_ratio=3.0).items()} == {
        "a": 9,
        "b": 9,
        "c": 6,
    }
    assert machine.left == [("c", "given up as far too slow after 6 rounds")]


def test_who_stays_has_all_rounds_however_slow():
    machine = Machine(a=1.0, slow=9.0, slower=99.0)
    samples = machine.run(12, give_up_ratio=2.0, stays=["slower", "nobody"])
    assert {name: len(seconds) for name, seconds in samples.items()} == {
        "a": 12,
        "slow": 6,
        "slower": 12,
    }


def test_who_is_clearly_slower_each_time_leaves_the_race():
    machine = Machine(
        a=1.0, slow=1.3, slow_but_once=lambda n: 1.2 if n == 2 else 9.0, late=1.2, reference=1.3
    )
    samples = machine.run(6, early_end=EarlyEnd(3, 1.25), stays=["reference"])
    assert {name: len(seconds) for name, seconds in samples.items()} == {
        "a": 6,
        "slow": 3,
        "slow_but_once": 6,
        "late": 6,
        "reference": 6,
    }
    assert machine.left == [("slow", "given up as clearly slower after 3 rounds")]


def test_noise_is_no_reason_to_give_up():
    """In the first rounds b seems 4 times slower, but for one of them."""
    machine = Machine(a=1.0, b=lambda n: 1.0 if n in (3, 7) else 4.0)
    assert len(machine.run(9, give_up_ratio=3.0)["b"]) == 9 and machine.left == []


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


def test_further_rounds_end_at_a_multiple():
    machine = Machine(a=1.0, b=1.0)
    samples = machine.run(3, further=Further(list, 1e9))
    assert len(samples["a"]) == len(samples["b"]) == 3 * MOST_FURTHER


def test_further_rounds_end_with_their_seconds_but_not_amid_a_round():
    machine = Machine(a=1.0, b=1.0)
    samples = machine.run(5, further=Further(list, 5.0))
    assert [len(each) for each in samples.values()] == [8, 8]  # two seconds a round
    assert [len(v) for v in Machine(a=1.0).run(5, further=Further(list, 1e-9)).values()] == [5]


@pytest.mark.parametrize("answer", [[], ["a"]])
def test_nothing_in_question_needs_no_more_rounds(answer):
    samples = Machine(a=1.0, b=1.0).run(4, further=Further(lambda _: answer, 1e9))
    assert [len(each) for each in samples.values()] == [4, 4]


def test_all_may_fail():
    machine = Machine(a=lambda n: None)
    asked = []
    samples = machine.run(
        3, give_up_ratio=3.0, further=Further(lambda s: asked.append(s) or s, 1e9)
    )
    assert samples == {"a": []} and asked == []
