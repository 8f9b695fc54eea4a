// SPDX-License-Identifier: Apache-2.0
// The page: what is chosen (function, plan, backends, words to find, part) and who shows it.

const PAGE = { function: DATA.functions[0], plan: "", hidden: new Set(), hits: [], hit: -1 };

const BUTTONS_HEIGHT = 48;

function begin() {
  byId("made-for").textContent = REPORT.host;
  ["line-ships", "line-latency", "line-next"].forEach((id, k) =>
    byId(id).replaceChildren(...withCode(DATA.head[k])),
  );
  drawPatterns(byId("patterns"));
  drawTiles(byId("tiles"));
  drawBlocks(byId("reasons-body"), DATA.reasons);
  drawBlocks(byId("precision-body"), DATA.precision);
  if (!DATA.precision.length) for (const id of ["precision", "to-precision"]) byId(id).remove();
  drawEnvironment(byId("environment-body"));
  beginTheme();
  byId("save-report").addEventListener("click", () => saveFile("report.json", REPORT_TEXT));
  const drawable = new Set(PAGE.function ? Object.keys(PAGE.function.plans) : []);
  const pick = (name) => {
    showPlan(name);
    byId("graph").scrollIntoView();
  };
  drawPlans(byId("plan-chart"), byId("plans-note"), drawable, pick);
  drawBlocks(byId("search-body"), DATA.search, drawable, pick);
  if (!drawable.size) {
    for (const id of ["graph", "time"]) byId(id).remove();
    return;
  }
  PAGE.details = new Details(byId("details"), {
    toggle: (k) => PAGE.graph.toggle([k], !PAGE.graph.open.has(k)),
    select: (k) => PAGE.graph.select(k),
    plan: showPlan,
    node: (index) => PAGE.graph.selectNode(index),
  });
  PAGE.graph = new GraphView(byId("stage"), byId("map"), coveredHeight, showChoice);
  beginControls();
  PAGE.plan = DATA.first.plan || "";
  showFunction(DATA.first.function || PAGE.function.function);
}

function beginControls() {
  const { graph } = PAGE;
  const choose = (id, names, changed) => {
    byId(id).append(...names.map((name) => html("option", { value: name }, name)));
    byId(id).addEventListener("change", (event) => changed(event.target.value));
  };
  choose("plan", Object.keys(PAGE.function.plans), showPlan);
  choose(
    "function",
    DATA.functions.map((row) => row.function),
    showFunction,
  );
  byId("function-label").hidden = DATA.functions.length < 2;
  byId("save-placement").addEventListener("click", () =>
    saveFile(`${PAGE.plan}.placement.json`, placementText(PAGE.plan)),
  );
  byId("zoom-in").addEventListener("click", () => graph.view.zoom(1.25));
  byId("zoom-out").addEventListener("click", () => graph.view.zoom(0.8));
  byId("zoom-all").addEventListener("click", () => graph.fit());
  byId("expand-all").addEventListener("click", () => expandAll(graph.open.size === 0));
  byId("find").addEventListener("input", (event) => find(event.target.value));
  byId("find").addEventListener("keydown", (event) => {
    if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") byId("stage").focus();
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    byId("find").focus();
  });
}

function showFunction(name) {
  PAGE.function = DATA.functions.find((row) => row.function === name);
  byId("function").value = name;
  PAGE.facts = new Facts(name);
  const plans = Object.keys(PAGE.function.plans);
  showPlan(plans.includes(PAGE.plan) ? PAGE.plan : plans[0]);
}

/** Draw a plan; what was hidden and found stays so. */
function showPlan(name) {
  PAGE.plan = name;
  byId("plan").value = name;
  for (const button of document.querySelectorAll("[data-plan]")) {
    if (button.dataset.plan === name) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
  PAGE.graph.show(name, PAGE.function.plans, PAGE.function.insides, PAGE.facts);
  drawFilters();
  drawTime(byId("time-bar"), byId("time-table"), byId("time-note"), PAGE.graph, (k) => {
    PAGE.graph.select(k);
    byId("graph").scrollIntoView();
  });
  find(byId("find").value);
}

/** A switch a backend of the plan, which is the graph's legend too. */
function drawFilters() {
  byId("filters").replaceChildren(
    ...PAGE.graph.plan.backends.map(({ backend, words }) => {
      const button = html(
        "button",
        {
          type: "button",
          class: "filter",
          "data-backend": backend,
          "aria-pressed": String(!PAGE.hidden.has(backend)),
        },
        swatch(backend),
        html("b", {}, backend),
        html("span", { class: "muted" }, words),
      );
      button.addEventListener("click", () => {
        if (PAGE.hidden.has(backend)) PAGE.hidden.delete(backend);
        else PAGE.hidden.add(backend);
        button.setAttribute("aria-pressed", String(!PAGE.hidden.has(backend)));
        PAGE.graph.hide(PAGE.hidden);
      });
      return button;
    }),
  );
}

function expandAll(isOpen) {
  const boxes = PAGE.graph.plan.boxes.map((_, k) => k);
  PAGE.graph.toggle(boxes, isOpen);
}

/** Mark the operators whose name, layer, shape or #index has these words. */
function find(words) {
  const wanted = words.trim().toLowerCase().replaceAll("×", "x");
  PAGE.hits = [];
  PAGE.hit = -1;
  if (wanted) {
    for (const node of PAGE.facts.nodes.values()) {
      if (!PAGE.graph.boxOf.has(node.index)) continue;
      const shape = node.shape.replaceAll("×", "x");
      const about = `${node.op} ${node.name} ${node.type} ${shape} #${node.index}`.toLowerCase();
      const isHit = /^#\d+$/.test(wanted) ? wanted === `#${node.index}` : about.includes(wanted);
      if (isHit) PAGE.hits.push(node.index);
    }
  }
  byId("found").textContent = wanted ? `${PAGE.hits.length} found` : "";
  PAGE.graph.mark(new Set(PAGE.hits));
}

function nextHit(step) {
  const count = PAGE.hits.length;
  if (!count) return;
  PAGE.hit = (PAGE.hit + step + (PAGE.hit < 0 && step < 0 ? 1 : 0) + count) % count;
  PAGE.graph.selectNode(PAGE.hits[PAGE.hit]);
  byId("found").textContent = `${PAGE.hit + 1} of ${count}`;
}

/** A part was chosen, or let go. */
function showChoice(choice) {
  PAGE.details.show(choice, PAGE.graph);
  byId("expand-all").setAttribute("aria-pressed", String(PAGE.graph.open.size > 0));
  byId("workspace").classList.toggle("has-choice", Boolean(choice));
  if (!choice) return;
  const { box } = choice;
  const time = box.backend ? `, ${box.time}` : "";
  byId("said").textContent = `${box.label}${box.backend ? ` on ${box.backend}` : ""}${time}`;
}

/** How much of the stage the buttons hide, or the details where they are a sheet above the page. */
function coveredHeight() {
  if (getComputedStyle(byId("details")).position !== "fixed") return BUTTONS_HEIGHT;
  const [stage, sheet] = [byId("stage"), byId("details")].map((node) =>
    node.getBoundingClientRect(),
  );
  return Math.min(stage.height / 2, Math.max(0, stage.bottom - sheet.top));
}

/** Light or dark: what the system has, until the button says otherwise. */
function beginTheme() {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const button = byId("theme");
  const set = (isDark) => {
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    button.textContent = isDark ? "Light" : "Dark";
    if (PAGE.graph) PAGE.graph.recolour();
  };
  set(system.matches);
  system.addEventListener("change", (event) => set(event.matches));
  button.addEventListener("click", () => set(document.documentElement.dataset.theme !== "dark"));
}

/** The patterns of backends, white on their colours. */
function drawPatterns(defs) {
  const shapes = {
    up: { d: "M-1 7L7 -1" },
    down: { d: "M-1 -1L7 7" },
    across: { d: "M0 3H6" },
    cross: { d: "M0 0L6 6M6 0L0 6" },
    dots: { d: "M3 3h.01", "stroke-linecap": "round", "stroke-width": 3 },
    rings: { d: "M1.2 3a1.8 1.8 0 1 0 3.6 0a1.8 1.8 0 1 0 -3.6 0" },
  };
  for (const [name, shape] of Object.entries(shapes)) {
    const path = svg("path", { stroke: "#fff", "stroke-width": 1.5, fill: "none", ...shape });
    defs.append(
      svg(
        "pattern",
        { id: `pattern-${name}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
        path,
      ),
    );
  }
}

begin();
