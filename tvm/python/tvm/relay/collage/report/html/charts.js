// SPDX-License-Identifier: Apache-2.0
// The report beside the graph: plans with intervals, time by part, how the plan was found, why
// backends did not get operators, the machine. Each is shown as its table says it.

/** The two figures that matter: latency and gain. */
function drawTiles(root) {
  const chosen = REPORT.plans.find((row) => row.is_chosen);
  if (!chosen || chosen.seconds == null) return;
  const tile = (label, value, below) =>
    html(
      "div",
      { class: "tile" },
      html("span", { class: "muted" }, label),
      html("strong", {}, ...value),
      html("span", { class: "muted" }, below),
    );
  root.append(tile("latency of a run", withNotes(chosen), intervalText(chosen)));
  const ratio = chosen.ratio_to_best_single;
  if (!ratio || (ratio.low === 1 && ratio.high === 1)) return;
  const interval =
    ratio.high == null
      ? "too few rounds to be sure"
      : `95 %: ${ratio.low.toFixed(2)} to ${ratio.high.toFixed(2)}`;
  root.append(tile("vs. the best backend alone", [`${ratio.value.toFixed(2)}×`], interval));
}

/** A plan's time, and smaller what makes it doubtful. */
function withNotes({ seconds, flags }) {
  return [formatSeconds(seconds), html("small", {}, notesText(flags))];
}

function intervalText(row) {
  return row.low == null ? "" : `95 %: ${formatSeconds(row.low)} to ${formatSeconds(row.high)}`;
}

/** A row a plan: a bar from zero with its interval; a click draws that plan. */
function drawPlans(root, note, drawable, pick) {
  const rows = [...REPORT.plans].sort((a, b) => (a.seconds ?? Infinity) - (b.seconds ?? Infinity));
  const measured = rows.filter((row) => row.seconds != null);
  note.textContent = measured.length
    ? "Median latency of a run, with its 95 % interval. A click draws the plan below."
    : REPORT.guard_skipped || "No plan was measured end to end.";
  if (REPORT.unverified) note.textContent += ` Not verified: ${REPORT.unverified}`;
  if (REPORT.original) note.textContent += ` Of the original: ${REPORT.original.summary}.`;
  const longest = greatest([...measured.map((row) => row.high ?? row.seconds), 1e-12]);
  const heads = ["", "median and interval", ">latency", "speed, best backend = 1", ">memory"];
  const head = html("div", { class: "plan-row plan-heads", "aria-hidden": "true" });
  head.append(
    ...heads.map((name) =>
      html("span", name[0] === ">" ? { class: "right" } : {}, name.replace(">", "")),
    ),
  );
  root.replaceChildren(
    ...(measured.length ? [head] : []),
    ...rows.map((row) => planRow(row, longest, drawable, pick)),
  );
}

function planRow(row, longest, drawable, pick) {
  const isDrawable = drawable.has(row.name);
  const name = html(
    "button",
    {
      type: "button",
      class: "plan-name",
      "data-plan": row.name,
      disabled: !isDrawable,
      onclick: () => pick(row.name),
    },
    row.name,
  );
  const tags = html("span", { class: "tags" });
  if (row.is_chosen) tags.append(html("span", { class: "tag strong" }, "ships"));
  if (row.same_as) tags.append(html("span", { class: "tag" }, `same as ${row.same_as}`));
  if (row.is_single_backend) tags.append(html("span", { class: "tag" }, "one backend"));
  const item = html(
    "div",
    { class: `plan-row${row.is_chosen ? " chosen" : ""}` },
    html("div", { class: "plan-title" }, name, tags),
  );
  if (row.seconds == null) {
    item.append(
      html(
        "p",
        { class: "why wide" },
        `${row.status.replaceAll("_", " ")}${row.message ? `: ${row.message}` : ""}`,
      ),
    );
    return item;
  }
  const percent = (seconds) => `${(100 * seconds) / longest}%`;
  const bar = html(
    "div",
    { class: "plan-bar", "aria-hidden": "true" },
    html("span", { class: "plan-fill" }),
  );
  bar.firstChild.style.width = percent(row.seconds);
  if (row.low != null) {
    const whisker = html("span", { class: "whisker" });
    whisker.style.cssText = `left: ${percent(row.low)}; width: ${percent(row.high - row.low)}`;
    bar.append(whisker);
  }
  const ratio = row.ratio_to_best_single;
  const speed = ratio
    ? `${ratio.value.toFixed(2)}×${ratio.high == null || ratio.low === ratio.high ? "" : ` [${ratio.low.toFixed(2)}, ${ratio.high.toFixed(2)}]`}`
    : "";
  const remarks = [
    row.is_dependent ? "rounds depend on those before: the interval is too narrow" : "",
    row.message,
  ]
    .filter(Boolean)
    .join("; ");
  item.append(
    bar,
    html("span", { class: "plan-figure", title: intervalText(row) }, ...withNotes(row)),
    html("span", { class: "plan-ratio muted" }, speed),
    html(
      "span",
      { class: "plan-memory muted" },
      row.memory_bytes ? formatBytes(row.memory_bytes) : "",
    ),
  );
  if (remarks) item.append(html("p", { class: "why wide" }, remarks));
  return item;
}

/** All parts side by side, as wide as they take long, those of a backend together. */
function drawTime(bar, tableRoot, note, graph, select) {
  const boxes = graph.plan.boxes.map((box, k) => ({ ...box, k })).filter((box) => box.seconds);
  const total = graph.total;
  const unknown = graph.plan.boxes.filter(
    (box) => box.nodes.length && box.kind !== "input" && box.seconds == null,
  ).length;
  const words = boxes.length
    ? `${counted(boxes.length, "part")}, measured alone: ` +
      `${timeText({ seconds: total, flags: flagsOf(boxes) })} in all` +
      `${unknown ? `; ${unknown} more have no time of their own` : ""}. The whole is measured end to end above. ${graph.plan.remark}`
    : "No part of this plan has a time of its own.";
  note.replaceChildren(...withCode(words));
  const sums = new Map();
  for (const box of boxes) sums.set(box.backend, (sums.get(box.backend) || 0) + box.seconds);
  boxes.sort((a, b) => sums.get(b.backend) - sums.get(a.backend) || b.seconds - a.seconds);
  bar.replaceChildren(
    ...[...sums]
      .sort((a, b) => b[1] - a[1])
      .map(([backend, sum]) => {
        const group = html("div", { class: "time-group" });
        group.style.cssText = `flex: ${sum / total} 1 0; --c: ${colourOf(backend)}`;
        const segments = html("div", {
          class: boxes.length > 100 ? "time-segments many" : "time-segments",
        });
        for (const box of boxes.filter((one) => one.backend === backend)) {
          const segment = html("div", {
            class: "time-segment",
            title: `${box.label}: ${timeText(box)}`,
            onclick: () => select(box.k),
          });
          segment.style.flexGrow = box.seconds / sum;
          segments.append(segment);
        }
        group.append(
          segments,
          html(
            "span",
            { class: "time-label" },
            html("span", {}, backend, " ", html("b", {}, formatShare(sum / total))),
          ),
        );
        return group;
      }),
  );
  const most = 12;
  const dearest = [...boxes].sort((a, b) => b.seconds - a.seconds);
  const show = (count) => {
    const rows = dearest
      .slice(0, count)
      .map((box) => [
        html(
          "button",
          { type: "button", class: "link inline", onclick: () => select(box.k) },
          box.label,
        ),
        chip(box.backend),
        shapeText(box.type),
        timeText(box),
        formatShare(box.seconds / total),
      ]);
    tableRoot.replaceChildren(
      ...(rows.length
        ? [table(["part", "backend", "gives", ">time", ">share"], rows, { class: "times" })]
        : []),
    );
    if (dearest.length > count)
      tableRoot.append(
        html(
          "button",
          { type: "button", onclick: () => show(Infinity) },
          `Show all ${dearest.length}`,
        ),
      );
  };
  show(most);
}

/** The search: its words, counts, time spent, kernels, and the search of whole plans. */
function drawSearch(root, drawable, pick) {
  for (const row of REPORT.functions) {
    if (row.skipped)
      root.append(html("p", {}, `@${row.function} was left as it was: ${row.skipped}`));
    else root.append(html("p", {}, searchText(row)), searchFigures(row));
  }
  const phases = Object.entries(REPORT.seconds);
  if (phases.length) {
    root.append(
      html("h3", {}, "Time spent"),
      table(
        ["phase", ">seconds"],
        phases.map(([name, value]) => [name, value.toFixed(1)]),
        { class: "narrow" },
      ),
    );
  }
  if (REPORT.graph_search)
    root.append(
      html("h3", {}, "Whole plans that were tried"),
      ...historyOf(REPORT.graph_search, drawable, pick),
    );
  const counts = Object.entries(REPORT.costs).flatMap(([name, value]) =>
    typeof value === "object" ? Object.entries(value) : [[name, value]],
  );
  if (counts.length) {
    root.append(
      html("h3", {}, "Costs"),
      table(
        ["what", ">count"],
        counts.map(([name, value]) => [name.replaceAll("_", " "), String(value)]),
        { class: "narrow" },
      ),
    );
  }
  if (REPORT.kernels.length) {
    const tried = (one) =>
      `${one.kernel} ${one.seconds == null ? one.status : formatSeconds(one.seconds)}`;
    root.append(
      html("h3", {}, "Steps that have several kernels"),
      table(
        ["backend", "step", "kernel", "of these, each alone"],
        REPORT.kernels.map((row) => [
          chip(row.backend),
          row.step,
          row.kernel,
          row.tried.map(tried).join(", "),
        ]),
      ),
    );
  }
}

/** What the search of a function found, for people. */
function searchText({ function: name, candidates, nodes, is_optimal }) {
  const where = REPORT.functions.length > 1 ? ` of @${name}` : "";
  const found = is_optimal
    ? "No other choice among them has a smaller sum of times."
    : "A limit ended the search: another choice among them may have a smaller sum of times.";
  const choice = `${counted(candidates, "part")} that a backend could run`;
  return `The op-level plan${where} was chosen among ${choice}, over ${counted(nodes, "node")}. ${found}`;
}

/** The search's own figures, for those who look into it. */
function searchFigures({ search, cuts }) {
  const lines = [search, ...cuts.map((line) => `Limit that cut: ${line}`)];
  return html(
    "details",
    { class: "search-figures" },
    html("summary", { class: "muted" }, "Figures of the search"),
    ...lines.map((line) => html("p", { class: "muted" }, line)),
  );
}

/** What failed while measuring, and why operators are on no backend. */
function drawReasons(root) {
  let isEmpty = true;
  for (const row of REPORT.functions) {
    const name = REPORT.functions.length > 1 ? ` of @${row.function}` : "";
    if (row.failures.length) {
      isEmpty = false;
      root.append(
        html("h3", {}, `Failed while measuring${name}`),
        table(
          ["backend", "operators", ">count", "status", "message"],
          row.failures.map((one) => [
            chip(one.backend),
            one.ops,
            String(one.count),
            one.status.replaceAll("_", " "),
            one.message,
          ]),
        ),
      );
    }
    if (row.unplaced.length) {
      isEmpty = false;
      root.append(
        html("h3", {}, `Why operators${name} stay on TVM`),
        table(
          ["operator", ">count", "backend", "why"],
          row.unplaced.map((one) => [
            one.op,
            String(one.operators),
            chip(one.backend),
            unplacedText(one),
          ]),
        ),
      );
    }
  }
  if (isEmpty)
    root.append(
      html("p", {}, "Nothing failed, and no operator stays on TVM for want of a backend."),
    );
}

function unplacedText(row) {
  if (row.why !== "slower") return `${whyText(row.why)}${row.message ? `: ${row.message}` : ""}`;
  return `slower: ${formatSeconds(row.backend_seconds)} there, ${formatSeconds(row.instead_seconds)} here`;
}

/** What the plan was made with. */
function drawEnvironment(root) {
  const seen =
    REPORT.placements.plans.find((row) => row.plan === REPORT.plan) || REPORT.placements.plans[0];
  const rows = [
    ["host target", REPORT.host],
    ["executor", REPORT.executor],
  ];
  if (seen) {
    const { collage, tvm, backends, opt_level, machine } = seen.made_with;
    rows.push(["tvm-collage", collage], ["TVM", tvm], ["opt level", String(opt_level)]);
    rows.push(
      ["CPU", machine.cpu],
      ["threads", String(machine.threads)],
      ["vector instructions", machine.features.join(", ")],
    );
    rows.push(
      ...Object.entries(backends).map(([name, version]) => [name, version || "no version"]),
    );
  }
  for (const [name, counts] of [
    ["schedules", REPORT.schedules],
    ["schedules tried", REPORT.transfers],
  ]) {
    const texts = Object.entries(counts || {}).map(([what, count]) => `${count} ${what}`);
    if (texts.length) rows.push([name, texts.join(", ")]);
  }
  root.append(
    html(
      "dl",
      { class: "facts" },
      ...rows.flatMap(([name, value]) => [html("dt", {}, name), html("dd", {}, value)]),
    ),
  );
}
