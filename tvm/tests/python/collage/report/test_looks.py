# SPDX-License-Identifier: Apache-2.0
"""Colours and patterns of backends."""

from made_reports import BACKENDS, PLANS, made, made_report, record
from tvm.relay.collage.backends import declared_colours
from tvm.relay.collage.report.html import to_html
from tvm.relay.collage.report.looks import PATTERNS, looks_of, mixed, report_looks
from tvm.relay.collage.report.picture import Picture, to_svg


def test_looks_differ_in_colour_and_pattern():
    looks = looks_of([*BACKENDS, *PLANS], {})
    assert next(iter(looks)) == "tvm"
    assert len({look.colour for look in looks.values()}) == len(looks) == 5
    many = looks_of((f"b{k}" for k in range(20)), {})
    assert len({(look.colour, look.pattern) for look in many.values()}) == 21
    assert all(look.pattern in PATTERNS for look in many.values())


def test_a_backend_that_declares_its_colour_has_it_beside_whichever_others():
    declared = declared_colours()
    names = [*declared]
    alone = {name: looks_of([name], declared)[name] for name in names}
    assert len({look.colour for look in alone.values()}) == len(names) >= 6
    together = looks_of([*names, "aaa", "own"], declared)
    assert {name: together[name] for name in names} == alone
    assert together["own"] not in alone.values()
    # What nobody declares is for the backends of users.
    assert looks_of(["own"], declared)["own"].colour not in {look.colour for look in alone.values()}


def test_backends_of_one_declared_colour_differ_in_their_patterns():
    for names in ([f"one{k}", f"two{k}"] for k in range(40)):
        looks = looks_of(names, dict.fromkeys(names, "#123456"))
        one, two = (looks[name] for name in names)
        assert one.colour == two.colour == "#123456" and one.pattern != two.pattern


def test_a_backend_keeps_its_colour_where_nobody_registered_it():
    kept = {"alpha": "#123456", "delta": "#654321"}
    looks = report_looks(made(1, colours=kept))
    assert looks["alpha"].colour == "#123456" and looks["beta"] != looks["gamma"]


def test_a_backend_looks_the_same_in_every_plan_and_form():
    """Whatever other backends a plan has, and nobody takes what is free for one."""
    report = made_report(1)
    report["functions"][0]["graph"]["backends"].append(
        {"name": "host", "is_external": False, "device": ""}
    )
    report = record(report)
    looks = report_looks(report)
    assert looks == looks_of(BACKENDS, {})
    for plan in PLANS:
        assert Picture(report, plan).looks == looks
    page = to_html(report)
    assert all(f'"{name}":{{"colour":"{look.colour}"' in page for name, look in looks.items())
    # Of a plan without the first of them, too.
    assert looks["beta"].colour in to_svg(Picture(report, "beta"))
    assert looks["alpha"].colour not in to_svg(Picture(report, "beta"))


def test_colours_are_thinned():
    assert mixed("#000000", 0.0) == "#ffffff" and mixed("#123456", 1.0) == "#123456"
