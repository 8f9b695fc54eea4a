# SPDX-License-Identifier: Apache-2.0
"""What a build decides about tuning records by measuring, decided by a test."""

import dataclasses

from tvm.relay.collage.plans import whole_plans
from tvm.relay.collage.tuning import run


def judge_as(is_better, monkeypatch):
    """Have a search take each record, or none; gives the costs with and without it that are
    judged."""
    judged = []

    def judge(after, before):
        judged.append((after, before))
        return is_better

    monkeypatch.setattr(run, "is_better", judge)
    return judged


def ship(plan, monkeypatch):
    """Have the guard, which measures as ever, find this plan the fastest."""
    guard = whole_plans.guard

    def deciding(*args, **more):
        found = guard(*args, **more)
        assert found.of(plan).cost.is_usable
        return dataclasses.replace(found, winner=plan)

    monkeypatch.setattr(whole_plans, "guard", deciding)
