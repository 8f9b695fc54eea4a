// SPDX-License-Identifier: Apache-2.0
// The report beside the graph: plans with intervals, time by part, how the plan was found, why
// backends did not get operators, the machine. Each is shown as its table says it.

/** The two figures that matter: latency and gain. */
function drawTiles(root) {
  for (const { label, value, note, below } of DATA.tiles) {
    root.append(
      html(
        "div",
        { class: "tile" },
        html("span", { class: "muted" }, label),
        html("strong", {}, value, html("small", {}, note)),
        html("span", { class: "muted" }, below),
      ),
    );
  }
}

/** A row a plan: a bar from zero with its interval; a click draws that plan. */
function drawPlans(root, note, drawable, pick) {
  note.textContent = DATA.plans_note;
  const heads = ["", "median and interval", ">latency", "speed, best backend = 1", ">memory"];
  const head = html("div", { class: "plan-row plan-heads", "aria-hidden": "true" });
  head.append(
    ...heads.map((name) =>
      html("span", name[0] === ">" ? { class: "right" } : {}, name.replace(">", "")),
    ),
  );
  root.replaceChildren(
    ...(DATA.plans.some((row) => row.bar) ? [head] : []),
    ...DATA.plans.map((row) => planRow(row, drawable, pick)),
  );
}

function planRow(row, drawable, pick) {
  const name = html(
    "button",
    {
      type: "button",
      class: "plan-name",
      "data-plan": row.name,
      disabled: !drawable.has(row.name),
      onclick: () => pick(row.name),
    },
    row.name,
  );
  const tags = html("span", { class: "tags" });
  if (row.is_chosen) tags.append(html("span", { class: "tag strong" }, "ships"));
  tags.append(...row.tags.map((words) => html("span", { class: "tag" }, words)));
  const item = html(
    "div",
    { class: `plan-row${row.is_chosen ? " chosen" : ""}` },
    html("div", { class: "plan-title" }, name, tags),
  );
  if (!row.bar) {
    item.append(html("p", { class: "why wide" }, row.failed));
    return item;
  }
  const [seconds, low, high] = row.bar.map((share) => (share == null ? null : 100 * share));
  const bar = html(
    "div",
    { class: "plan-bar", "aria-hidden": "true" },
    html("span", { class: "plan-fill" }),
  );
  bar.firstChild.style.width = `${seconds}%`;
  if (low != null) {
    const whisker = html("span", { class: "whisker" });
    whisker.style.cssText = `left: ${low}%; width: ${high - low}%`;
    bar.append(whisker);
  }
  item.append(
    bar,
    html(
      "span",
      { class: "plan-figure", title: row.bounds },
      row.time,
      html("small", {}, row.note),
    ),
    html("span", { class: "plan-ratio muted" }, row.speed),
    html("span", { class: "plan-memory muted" }, row.memory),
  );
  if (row.remarks) item.append(html("p", { class: "why wide" }, row.remarks));
  return item;
}

/** All parts side by side, as wide as they take long, those of a backend together. */
function drawTime(bar, tableRoot, note, graph, select) {
  const { boxes, backends, time_note } = graph.plan;
  note.replaceChildren(...withCode(time_note));
  const timed = backends.filter(({ seconds }) => seconds);
  const parts = timed.flatMap((row) => row.boxes.filter((k) => boxes[k].seconds));
  const total = timed.reduce((sum, { seconds }) => sum + seconds, 0);
  const kind = parts.length > 100 ? "time-segments many" : "time-segments";
  bar.replaceChildren(
    ...timed.map((row) => {
      const group = html("div", { class: "time-group" });
      group.style.cssText = `flex: ${row.seconds / total} 1 0; --c: ${colourOf(row.backend)}`;
      const segments = html("div", { class: kind });
      for (const k of row.boxes.filter((one) => boxes[one].seconds)) {
        const title = `${boxes[k].label}: ${boxes[k].time}`;
        const segment = html("div", { class: "time-segment", title, onclick: () => select(k) });
        segment.style.flexGrow = boxes[k].seconds / row.seconds;
        segments.append(segment);
      }
      const name = html("span", {}, row.backend, " ", html("b", {}, row.share));
      group.append(segments, html("span", { class: "time-label" }, name));
      return group;
    }),
  );
  const most = 12;
  const dearest = [...parts].sort((a, b) => boxes[b].seconds - boxes[a].seconds);
  const show = (count) => {
    const rows = dearest.slice(0, count).map((k) => {
      const { label, backend, shape, time, share } = boxes[k];
      const onclick = () => select(k);
      const link = html("button", { type: "button", class: "link inline", onclick }, label);
      return [link, chip(backend), shape, time, share];
    });
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

/** Blocks as page.py has them: titles, texts, figures and tables. */
function drawBlocks(root, blocks, drawable, pick) {
  const cell = (one) => (typeof one === "string" ? one : chip(one.backend));
  for (const { title, texts, figures, columns, rows, kind, history, front } of blocks) {
    if (title) root.append(html("h3", {}, title));
    root.append(...texts.map((line) => html("p", {}, line)));
    if (figures) root.append(searchFigures(figures));
    if (history) root.append(...historyOf(REPORT.graph_search, drawable, pick));
    if (front) root.append(...frontOf(REPORT.precision));
    if (rows.length) {
      root.append(
        table(
          columns,
          rows.map((row) => row.map(cell)),
          kind ? { class: kind } : {},
        ),
      );
    }
  }
}

/** The search's own figures, for those who look into it. */
function searchFigures(lines) {
  return html(
    "details",
    { class: "search-figures" },
    html("summary", { class: "muted" }, "Figures of the search"),
    ...lines.map((line) => html("p", { class: "muted" }, line)),
  );
}

/** What the plan was made with. */
function drawEnvironment(root) {
  root.append(
    html(
      "dl",
      { class: "facts" },
      ...DATA.environment.flatMap(([name, value]) => [html("dt", {}, name), html("dd", {}, value)]),
    ),
  );
}
