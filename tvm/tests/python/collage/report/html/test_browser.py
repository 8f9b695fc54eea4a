# SPDX-License-Identifier: Apache-2.0
"""The page in a headless Chromium: real clicks and keys, sizes, colours, large nets."""

import json
import re
import time

import pytest
from browser import browser, save_screenshot, set_screen
from made_precisions import ALPHA_TRADES, told
from made_reports import made, made_report, record
from PIL import Image
from tvm.relay.collage.files.records import to_json
from tvm.relay.collage.plans.placement import load_placement
from tvm.relay.collage.report.html import to_html
from tvm.relay.collage.report.looks import PRECISION_COLOURS

LARGE = 285  # blocks: 1,999 operators


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def chrome(folder):
    with browser(folder) as driver:
        yield driver


@pytest.fixture(scope="module")
def pages(folder):
    """Addresses of a small and of a large net's page."""
    addresses = {}
    for name, blocks in (("small", 2), ("large", LARGE)):
        path = folder / f"{name}.html"
        path.write_text(to_html(made(blocks, has_region=name == "large")))
        addresses[name] = path.as_uri()
    return addresses


@pytest.fixture
def show(chrome, pages, folder):
    """Open a page of `pages`, or that of a report; what it said on the console, or asked the
    network for, fails the test."""

    def write(report):
        path = folder / "made.html"
        path.write_text(to_html(report))
        return path.as_uri()

    def opened(page="small", width=1280, height=900, scheme="light"):
        address = pages[page] if isinstance(page, str) else write(page)
        set_screen(chrome, width, height, scheme)
        chrome.get(address)
        chrome.execute_script("document.getElementById('graph')?.scrollIntoView()")
        # What scrolling draws anew is there with the next frame.
        chrome.execute_async_script(
            "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        )

    yield opened
    assert chrome.get_log("browser") == []
    messages = [json.loads(row["message"])["message"] for row in chrome.get_log("performance")]
    asked = [m for m in messages if m["method"] == "Network.requestWillBeSent"]
    addresses = {m["params"]["request"]["url"].split(":", 1)[0] for m in asked}
    assert addresses <= {"file", "blob", "data"}


def find(chrome, selector):
    return chrome.find_element("css selector", selector)


def downloaded(path):
    """The text of a file that the browser saves."""
    deadline = time.monotonic() + 20
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return path.read_text()


def text_of(chrome, selector):
    return find(chrome, selector).text


def box_named(chrome, words):
    """The first drawn box whose label begins so."""
    for box in chrome.find_elements("css selector", "g.box"):
        if box.text.startswith(words):
            return box
    raise AssertionError(f"no box {words!r} is drawn")


def press(chrome, *keys):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(chrome).send_keys(*keys).perform()


def test_three_lines_come_first(chrome, show):
    show()
    assert text_of(chrome, "#line-ships").startswith("Plan collage ships: operators")
    assert "as fast as the best backend alone, alpha" in text_of(chrome, "#line-latency")
    assert text_of(chrome, "#line-next").startswith("Click a part")
    assert "1.21×" in text_of(chrome, "#tiles") and "95 %:" in text_of(chrome, "#tiles")


def test_a_click_says_what_each_backend_takes_and_why_others_could_not(chrome, show):
    show()
    box_named(chrome, "add").click()
    assert text_of(chrome, "#details h3") == "add"
    rows = {
        row.get_attribute("data-backend"): row.text
        for row in chrome.find_elements("css selector", ".costs li")
    }
    assert set(rows) == {"tvm", "alpha", "beta", "gamma"}
    assert "runs here" in rows["beta"] and " us" in rows["beta"]
    assert re.search(r"lost: [0-9.]+ us more", rows["alpha"])
    assert "gamma.add refused: attribute layout is NCHW8c" in rows["gamma"]
    assert "float32[1, 64, 56, 56]" in text_of(chrome, "#details")
    find(chrome, "#details .quiet").click()
    assert text_of(chrome, "#details h3") == "No part is selected"


def test_a_part_is_opened_and_its_operators_are_looked_at(chrome, show):
    show()
    box = box_named(chrome, "conv2d + bias_add + relu")
    box.find_element("css selector", ".toggle").click()
    operators = chrome.find_elements("css selector", "g.operator")
    assert [one.text.split()[0] for one in operators] == ["conv2d", "bias_add", "relu"]
    operators[0].click()
    assert text_of(chrome, "#details h3") == "nn.conv2d"
    assert "within this part of 3 operators" in text_of(chrome, ".costs .here")
    find(chrome, ".operators summary").click()
    assert "[1, 1, 1, 1]" in text_of(chrome, ".operators table")
    find(chrome, "#open-part").click()
    assert not chrome.find_elements("css selector", "g.operator")


def test_all_of_it_works_by_keys(chrome, show):
    from selenium.webdriver.common.keys import Keys

    show()
    chrome.execute_script("document.getElementById('stage').focus()")
    press(chrome, Keys.ARROW_DOWN)
    assert text_of(chrome, "#details h3") == "data"
    press(chrome, Keys.ARROW_DOWN)
    assert text_of(chrome, "#details h3") == "conv2d + bias_add + relu"
    assert "on beta, 116 us" in find(chrome, "#said").get_attribute("textContent")
    press(chrome, Keys.ENTER)
    assert len(chrome.find_elements("css selector", "g.operator")) == 3
    press(chrome, Keys.ARROW_UP)
    assert text_of(chrome, "#details h3") == "data"
    before = find(chrome, ".drawing > g").get_attribute("transform")
    press(chrome, "+")
    assert find(chrome, ".drawing > g").get_attribute("transform") != before
    press(chrome, Keys.ESCAPE)
    assert text_of(chrome, "#details h3") == "No part is selected"
    press(chrome, "/", "softmax", Keys.ENTER)
    assert text_of(chrome, "#details h3") == "softmax"
    assert text_of(chrome, "#found") == "1 of 1"


def test_words_shapes_and_numbers_are_found(chrome, show):
    show()
    field = find(chrome, "#find")
    for words, count in (
        ("CONV2D", 4),
        ("/layer2", 2),
        ("1×1000", 2),
        ("1x64x1", 1),
        ("#11", 1),
        ("nothing", 0),
    ):
        field.clear()
        field.send_keys(words)
        assert text_of(chrome, "#found") == f"{count} found", words
    field.clear()
    field.send_keys("Conv")
    hits = chrome.find_elements("css selector", "g.box.hit")
    assert hits and all("conv2d" in box.get_attribute("textContent") for box in hits)


def test_a_backend_is_hidden(chrome, show):
    show()
    button = find(chrome, '.filter[data-backend="beta"]')
    assert "5 parts" in button.text
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    off = chrome.find_elements("css selector", "g.box.off")
    assert off and all("beta" in box.get_attribute("textContent") for box in off)
    button.click()
    assert not chrome.find_elements("css selector", "g.box.off")


def test_what_is_saved_and_shown_has_every_digit(chrome, show, folder):
    report = made_report(1)
    # As a slice without an end has it, which no number of a script is; one that a script cuts.
    exact = {"end": [2**63 - 1], "scale": 1.0, "name": "[9007199254740993]"}
    nodes = report["functions"][0]["graph"]["nodes"]
    conv = next(node for node in nodes if node["op"] == "nn.conv2d")
    conv["attrs"].update(exact)
    for part in report["placements"]["functions"][0]["parts"]:
        part["composites"] = [{"name": "c", "nodes": part["nodes"][:1], "attrs": exact}]
    show(record(report))
    find(chrome, "#save-placement").click()
    placement = load_placement_when_there(folder / "collage.placement.json")
    found = [part.composites[0].attrs for part in placement.functions[0].parts]
    assert found and all(repr(attrs) == repr(exact) for attrs in found)
    box_named(chrome, "conv2d").click()
    find(chrome, "#save-report").click()
    saved = json.loads(downloaded(folder / "report.json"))
    assert saved == json.loads(json.dumps(record(report).to_json()))
    words = find(chrome, "#details").get_attribute("textContent")
    assert "[9223372036854775807]" in words and "[9007199254740993]" in words


def load_placement_when_there(path):
    assert downloaded(path)
    return load_placement(path)


def test_a_plan_has_room_for_more_items_than_a_function_takes_arguments(chrome, show):
    show()
    bounds = chrome.execute_script("""
        const many = { boxes: [], edges: [], layers: [[]], x: Array(5e5).fill(7) };
        return new Arrangement({ ...many, widths: Array(5e5).fill(2) }, [], new Set()).bounds;
    """)
    assert (bounds["left"], bounds["right"]) == (6, 8)


def test_any_plan_is_drawn_and_saved(chrome, show, folder):
    from selenium.webdriver.support.select import Select

    show()
    Select(find(chrome, "#plan")).select_by_value("beta")
    drawn = chrome.find_elements("css selector", "g.box.part")
    boxes = [box.get_attribute("textContent") for box in drawn]
    assert boxes and all("beta" in words for words in boxes)
    find(chrome, "#save-placement").click()
    placement = load_placement_when_there(folder / "beta.placement.json")
    assert placement.plan == "beta"
    assert {part.backend for part in placement.functions[0].parts} == {"beta"}
    chrome.execute_script("document.getElementById('plans').scrollIntoView()")
    find(chrome, '[data-plan="tvm"]').click()
    assert find(chrome, "#plan").get_property("value") == "tvm"
    assert not find(chrome, '[data-plan="gamma"]').is_enabled(), "it failed, and has no placement"
    assert "crashed: signal 11 <in> gamma's code" in text_of(chrome, "#plan-chart")


def test_what_is_selected_is_looked_at_in_another_plan(chrome, show):
    from selenium.webdriver.support.select import Select

    show()
    box_named(chrome, "conv2d + bias_add + relu").click()
    assert "beta" in text_of(chrome, ".costs .here")
    Select(find(chrome, "#plan")).select_by_value("alpha")
    assert text_of(chrome, "#details h3") == "conv2d + bias_add + relu"
    assert "alpha" in text_of(chrome, ".costs .here")
    others = chrome.find_elements("css selector", "[data-other]")
    assert [one.text.split() for one in others] == [
        ["collage", "beta"],
        ["beta", "beta"],
        ["tvm", "tvm"],
    ]
    others[1].click()
    assert "beta" in text_of(chrome, ".costs .here")
    assert find(chrome, "#plan").get_property("value") == "beta"


def test_dragging_moves_and_is_no_click(chrome, show):
    from selenium.webdriver.common.action_chains import ActionChains

    show("large")
    stage = find(chrome, "#stage")
    before = chrome.execute_script("return PAGE.graph.view.y")
    chain = ActionChains(chrome).move_to_element(box_named(chrome, "conv2d")).click_and_hold()
    chain.move_by_offset(0, -60).move_by_offset(0, -60).release().perform()
    assert chrome.execute_script("return PAGE.graph.view.y") == pytest.approx(before - 120, abs=2)
    assert text_of(chrome, "#details h3") == "No part is selected"
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    origin = ScrollOrigin.from_element(stage)
    ActionChains(chrome).scroll_from_origin(origin, 0, 200).perform()
    assert chrome.execute_script("return PAGE.graph.view.y") == pytest.approx(before - 320, abs=2)


def test_the_map_leads_anywhere(chrome, show):
    from selenium.webdriver.common.action_chains import ActionChains

    show("large")
    place = find(chrome, "#map")
    middle = place.size["height"] // 2
    ActionChains(chrome).move_to_element_with_offset(place, 0, middle - 2).click().perform()
    assert box_named(chrome, "softmax").is_displayed()


@pytest.mark.parametrize("name", ["small", "large"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_the_screen(name, scheme, width, chrome, show, tmp_path):
    show(name, width, 844, scheme)
    fits = "return document.documentElement.scrollWidth <= window.innerWidth"
    assert chrome.execute_script(fits), "the page is wider than the screen"
    ground = chrome.execute_script("return getComputedStyle(document.body).backgroundColor")
    dark = max(map(int, ground[4:-1].split(","))) < 64
    assert dark == (scheme == "dark")
    for part in ("search", "reasons", "environment"):
        chrome.execute_script(f"document.getElementById('{part}').open = true")
    assert chrome.execute_script(fits), "what was opened is wider than the screen"
    assert texts_outside_boxes(chrome) == []
    save_screenshot(chrome, tmp_path / "page.png")
    with Image.open(tmp_path / "page.png") as picture:
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 50, "the page is empty"


def texts_outside_boxes(chrome):
    """Texts of boxes that reach out of them, or lie on another text of the same line."""
    return chrome.execute_script("""
        const wrong = [];
        for (const box of document.querySelectorAll("g.box")) {
          const face = box.querySelector(".face").getBoundingClientRect();
          const place = (text) => [text, text.getBoundingClientRect()];
          const texts = [...box.querySelectorAll("text")].map(place);
          for (const [text, area] of texts) {
            if (area.left < face.left || area.right > face.right + 1) wrong.push(text.textContent);
            for (const [other, its] of texts) {
              const apart = area.right <= its.left || its.right <= area.left ||
                area.bottom <= its.top + 3 || its.bottom <= area.top + 3;
              if (other !== text && !apart) wrong.push(text.textContent + "|" + other.textContent);
            }
          }
        }
        return wrong;
    """)


def test_a_graph_smaller_than_a_tall_stage_begins_at_its_top(chrome, show):
    show(width=800, height=2400)
    box, stage = find(chrome, "g.box").rect, find(chrome, "#stage").rect
    assert 0 <= box["y"] - stage["y"] < 60


def test_a_sheet_of_details_leaves_the_part_to_be_seen(chrome, show):
    show("small", 390, 844)
    box_named(chrome, "conv2d").click()
    assert find(chrome, "#details").rect["width"] == 390
    assert "runs here" in text_of(chrome, "#details .costs")
    chosen = chrome.execute_script(
        "return document.querySelector('g.chosen').getBoundingClientRect().bottom"
    )
    top = chrome.execute_script(
        "return document.getElementById('details').getBoundingClientRect().top"
    )
    assert chosen <= top


def test_the_button_changes_the_colours(chrome, show):
    show(scheme="dark")
    assert text_of(chrome, "#theme") == "Light"
    find(chrome, "#theme").click()
    assert chrome.execute_script("return document.documentElement.dataset.theme") == "light"


def test_of_a_large_net_only_what_is_near_is_drawn(chrome, show):
    show("large")
    drawn = "return document.querySelectorAll('.drawing *').length"
    assert len(chrome.find_elements("css selector", "g.box")) < 60
    assert chrome.execute_script(drawn) < 800
    find(chrome, "#zoom-all").click()
    assert find(chrome, "#stage").get_attribute("data-detail") == "blocks"
    assert chrome.execute_script(drawn) < 3000
    find(chrome, "#expand-all").click()
    assert chrome.execute_script("return PAGE.graph.open.size") == 2 * LARGE
    chrome.execute_script("PAGE.graph.selectNode(PAGE.facts.row.nodes - 1)")
    assert text_of(chrome, "#details h3") == "softmax"
    assert box_named(chrome, "softmax").is_displayed()


def test_a_plan_that_a_search_tried_is_drawn(chrome, show):
    show(made(1, trials=30))
    find(chrome, "#search summary").click()
    assert "evolutionary, 12 genes, 30 plans, 3 failed" in text_of(chrome, "#search-body")
    # Once by trial, and once by seconds, of which each trial takes as many.
    labels = [each.text for each in chrome.find_elements("css selector", ".history .middle")]
    assert labels == ["trial, to 30", "seconds since the search began, to 116"]
    places = "return [...document.querySelectorAll('.history')].map((picture) => "
    places += "[...picture.querySelectorAll('.trial')].map((dot) => +dot.getAttribute('cx')))"
    by_trial, by_seconds = chrome.execute_script(places)
    assert by_trial[0] == pytest.approx(64 + 684 / 30) and by_seconds[0] == 64
    assert by_trial[-1] == by_seconds[-1] == 748
    dots = chrome.find_elements("css selector", ".trial.drawn")
    assert len(dots) == 2 * 12
    dots[0].click()
    assert find(chrome, "#plan").get_property("value").startswith("trial-")


def test_of_a_part_that_is_the_whole_net_only_what_is_near_is_drawn(chrome, show):
    show("large")
    chrome.execute_script("showPlan('alpha')")
    box_named(chrome, "570 conv2d").click()
    assert len(chrome.find_elements("css selector", ".operators li")) == 40
    chrome.execute_script("document.querySelector('.operators + button').click()")
    assert len(chrome.find_elements("css selector", ".operators li")) == 1999
    box_named(chrome, "570 conv2d").find_element("css selector", ".toggle").click()
    assert 5 < len(chrome.find_elements("css selector", "g.operator")) < 80
    chrome.execute_script("PAGE.graph.selectNode(PAGE.facts.row.nodes - 1)")
    assert text_of(chrome, "#details h3") == "nn.softmax"
    assert chrome.execute_script("return document.querySelectorAll('.drawing *').length") < 800
    find(chrome, "#zoom-all").click()
    assert 100 < len(chrome.find_elements("css selector", "g.operator")) < 1000


def test_where_the_time_goes(chrome, show):
    show("large")
    chrome.execute_script("document.getElementById('time').scrollIntoView()")
    assert len(chrome.find_elements("css selector", ".time-group")) == 3
    filled = chrome.execute_script("""
        const width = (node) => node.getBoundingClientRect().width;
        const parts = [...document.querySelectorAll(".time-segment")].map(width);
        const all = width(document.getElementById("time-bar"));
        return parts.reduce((sum, one) => sum + one, 0) / all;
    """)
    assert filled > 0.9, "parts of a large net are too narrow to be seen"
    rows = chrome.find_elements("css selector", "#time-table tbody tr")
    assert len(rows) == 12
    rows[0].find_element("css selector", "button").click()
    assert text_of(chrome, "#details h3") == "conv2d + bias_add + relu"
    chrome.execute_script("document.querySelector('#time-table > button').click()")
    assert len(chrome.find_elements("css selector", "#time-table tbody tr")) == 859


def test_names_are_never_markup(chrome, show):
    report = made_report(1)
    name = "</script><b id=bad>x</b>"
    report["functions"][0]["graph"]["nodes"][2]["name"] = name
    report["functions"][0]["graph"]["nodes"][0]["name"] = name
    show(record(report))
    box_named(chrome, "conv2d").click()
    assert name in text_of(chrome, "#details")
    assert not chrome.find_elements("css selector", "#bad")


def test_a_page_without_a_graph_says_the_rest(chrome, show):
    report = made_report(1, functions=[], placements={"functions": [], "plans": []}, plans=[])
    report["guard_skipped"] = "the module has open dimensions"
    show(record(report))
    assert "the module has open dimensions" in text_of(chrome, "#line-latency")
    assert not chrome.find_elements("css selector", "#graph, #time")


def test_a_label_that_has_no_room_is_left_out(chrome, show):
    """And no letter of it is seen; what has room is."""
    report = made_report(1)
    parts = report["placements"]["functions"][0]["parts"]
    for part in parts:
        part["cost"]["seconds"] = 1.0 if part["backend"] == "alpha" else 1e-3
    show(record(report))
    seen = chrome.execute_script("""
        return [...document.querySelectorAll(".time-label")].map((label) => {
            const [all, words] = [label, label.firstChild].map((e) => e.getBoundingClientRect());
            return [words.top < all.bottom - 1, words.right <= all.right + 1];
        });
    """)
    assert [True, True] in seen and any(not is_seen for is_seen, _ in seen)
    assert all(has_room for is_seen, has_room in seen if is_seen)


def test_notes_of_a_time_give_way_to_the_backend_s_name(chrome, show):
    report = made_report(1)
    for part in report["placements"]["functions"][0]["parts"]:
        part["cost"]["flags"] = ["noisy", "busy", "unverified"]
    show(record(report))
    seen = chrome.execute_script("""
        return [...document.querySelectorAll(".box.part")].map((box) =>
            [".small", ".time"].map((of) => box.querySelector(of)?.textContent));
    """)
    marked = [where for where, time in seen if time and " (" in time]
    assert marked and all(re.match(r"(alpha|beta|gamma|tvm)\b", where) for where in marked)


def test_busy_times_contradictions_and_words_for_users(chrome, show):
    report = made_report(1)
    report["costs"]["busy"] = 3
    for row in report["plans"]:
        row["flags"] = ["busy"]
    for part in report["placements"]["functions"][0]["parts"]:
        part["cost"].update(seconds=9 * (part["cost"]["seconds"] or 0.0), flags=["busy"])
    show(record(report))
    assert "`" not in text_of(chrome, "#line-next") and find(chrome, "#line-next code")
    assert " (busy) in all" in text_of(chrome, "#time-note")
    assert find(chrome, ".tile strong").text.endswith(" us (busy)")
    assert "(busy)" in find(chrome, ".plan-figure").text
    assert "measured beside other work" in text_of(chrome, "#time-note")
    assert find(chrome, "#time-note code").text == "collage doctor"
    assert "(busy)" in text_of(chrome, "#time-table")
    box_named(chrome, "add").click()
    assert "(busy)" in text_of(chrome, "#details .part-head")
    find(chrome, "#search > summary").click()
    words = text_of(chrome, "#search-body")
    assert "No other choice among them has a smaller sum" in words and "4 rounds" not in words
    find(chrome, ".search-figures summary").click()
    assert "4 rounds" in text_of(chrome, "#search-body")


def test_a_box_without_a_time_says_so(chrome, show):
    report = made_report(1)
    for part in report["placements"]["functions"][0]["parts"]:
        part["cost"].update(seconds=None, status="unknown")
    report["functions"][0]["graph"]["costed"] = []
    show(record(report))
    assert "not measured" in box_named(chrome, "add").text
    box_named(chrome, "add").click()
    assert "nobody measured this part alone" in text_of(chrome, ".costs .here")


def test_the_front_has_what_was_built_and_what_was_foreseen(show, chrome):
    show(made(2, precision=to_json(told()), trades=ALPHA_TRADES))
    circles = {
        name: chrome.find_elements("css selector", f"#precision circle.{name}")
        for name in ("built", "foreseen")
    }
    # int8 over the budget was not timed.
    assert [len(found) for found in circles.values()] == [2, 1]
    left = {circle.get_attribute("cx") for each in circles.values() for circle in each}
    assert len(left) == 3
    assert "1 layer in int8" in circles["foreseen"][0].get_property("textContent")
    assert "mixed" in text_of(chrome, "#precision") and find(chrome, "#to-precision")
    strips = chrome.find_elements("css selector", f'rect[fill="{PRECISION_COLOURS["bfloat16"]}"]')
    assert strips


def test_without_precisions_the_page_has_no_place_for_them(show, chrome):
    show("small")
    assert chrome.find_elements("css selector", "#precision, #to-precision") == []
