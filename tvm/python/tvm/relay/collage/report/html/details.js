// SPDX-License-Identifier: Apache-2.0
// What is known of a part or operator: its operators, its cost on every backend, why the others
// lost or could not, its neighbours.

const MOST_OPERATORS = 40;

class Details {
  /** actions: {toggle(k), select(k), node(index)}. */
  constructor(root, actions) {
    Object.assign(this, { root, actions });
  }

  /** choice: of GraphView, or null. */
  show(choice, graph) {
    this.graph = graph;
    this.root.classList.toggle("empty", !choice);
    this.root.replaceChildren(...(choice ? this._of(choice) : this._none()));
    this.root.scrollTop = 0;
  }

  _none() {
    const boxes = this.graph.plan.boxes.filter((box) => box.seconds != null);
    const dearest = [...boxes].sort((a, b) => b.seconds - a.seconds).slice(0, 5);
    return [
      html("h3", {}, "No part is selected"),
      html(
        "p",
        { class: "muted" },
        "Click a part to see its operators, what each backend would take for it, and why the others lost or could not.",
      ),
      dearest.length ? html("h4", {}, "The dearest parts") : null,
      html(
        "ul",
        { class: "links" },
        ...dearest.map((box) => this._link(this.graph.plan.boxes.indexOf(box))),
      ),
    ].filter(Boolean);
  }

  _of({ k, box, node }) {
    const { facts } = this.graph;
    const part = node == null ? box : this._operator(box, node);
    const isPart = part.kind === "part" || part.kind === "rest";
    return [
      this._head(k, part, node),
      ...(isPart
        ? [html("h4", {}, "Cost on every backend"), this._costs(part, box, node != null)]
        : []),
      ...(isPart ? this._otherPlans(part) : []),
      ...(isPart
        ? [html("h4", {}, counted(part.nodes.length, "operator")), this._operators(part.nodes)]
        : []),
      ...(box.kind === "input" ? [html("p", {}, facts.nodes.get(box.nodes[0]).type)] : []),
      ...(node == null
        ? [
            ...this._neighbours(k, "Reads from", "into", "source"),
            ...this._neighbours(k, "Read by", "outOf", "target"),
          ]
        : [
            ...this._operatorLinks("Reads from", facts.nodes.get(node).reads),
            ...this._operatorLinks("Read by", facts.nodes.get(node).readers),
          ]),
    ];
  }

  /** One operator of a box, as if it were one. */
  _operator(box, index) {
    const node = this.graph.facts.nodes.get(index);
    return {
      ...box,
      kind: "part",
      nodes: [index],
      label: node.op || node.kind,
      type: node.type,
      seconds: null,
      flags: [],
    };
  }

  _head(k, part, node) {
    const { graph } = this;
    const title = html("div", { class: "title" }, html("h3", {}, part.label));
    title.append(
      html(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": "Close",
          onclick: () => this.actions.select(null),
        },
        "×",
      ),
    );
    const words = [];
    if (part.seconds != null) words.push(`${part.time}, ${part.share} of the sum of parts`);
    else if (part.kind === "rest") words.push("in no part: TVM fuses it with what is beside it");
    else if (node != null) words.push(`operator #${node} of this part`);
    const head = html("div", { class: "part-head" }, title);
    if (part.backend)
      head.append(
        html("p", {}, chip(part.backend), " ", html("span", { class: "muted" }, words.join(""))),
      );
    if (part.type) head.append(html("p", { class: "mono" }, part.type));
    if (part.rule) head.append(html("p", { class: "muted" }, `found by ${part.rule}`));
    if (graph.plan.boxes[k].inside != null) {
      const isOpen = graph.open.has(k);
      head.append(
        html(
          "button",
          { type: "button", id: "open-part", onclick: () => this.actions.toggle(k) },
          isOpen ? "Close the part" : "Show its operators in the graph",
        ),
      );
    }
    return head;
  }

  _within(box) {
    const time = box.seconds == null ? "" : `, which takes ${box.time}`;
    return `within this part of ${box.nodes.length} operators${time}`;
  }

  /** A row a backend: a bar for what it takes, or why there is none. */
  _costs(part, box, isOperator) {
    const { facts, plan } = this.graph;
    const rows = facts.backends.map((backend) => {
      const isHere = backend === part.backend && !isOperator;
      const found = facts.elsewhere(part, backend);
      if (isOperator && backend === part.backend)
        return { backend, isHere: true, kind: "within", text: this._within(box) };
      if (!isHere) return { backend, isHere, ...found };
      return part.seconds == null
        ? { backend, isHere, kind: "within", text: "nobody measured this part alone" }
        : { backend, isHere, kind: "same", seconds: part.seconds, flags: part.flags, text: "" };
    });
    const same = rows.filter((row) => row.kind === "same");
    const longest = greatest([...same.map((row) => row.seconds), 1e-12]);
    const fastest = least(same.map((row) => row.seconds));
    const order = { within: 0, same: 0, larger: 1, pieces: 2 };
    rows.sort(
      (a, b) => (order[a.kind] ?? 3) - (order[b.kind] ?? 3) || (a.seconds || 0) - (b.seconds || 0),
    );
    return html(
      "ul",
      { class: "costs" },
      ...rows.map((row) => this._cost(row, part, plan, longest, fastest)),
    );
  }

  _cost(row, part, plan, longest, fastest) {
    const item = html("li", { class: row.isHere ? "here" : "", "data-backend": row.backend });
    const line = html("div", { class: "cost-line" }, chip(row.backend));
    if (row.isHere) line.append(html("span", { class: "tag" }, "runs here"));
    item.append(line);
    if (row.kind === "same") {
      line.append(html("strong", { class: "figure" }, timeText(row)));
      const bar = html("div", { class: "cost-bar" }, html("span", {}));
      bar.firstChild.style.cssText = `width: ${Math.max(1, (100 * row.seconds) / longest)}%; --c: ${colourOf(row.backend)}`;
      item.append(bar, html("p", { class: "why" }, this._whySame(row, part, fastest)));
    } else if (row.kind === "larger") {
      item.append(html("p", { class: "why" }, this._whyLarger(row, plan)));
    } else
      item.append(
        html("p", { class: "why" }, `${row.kind === "failed" ? "failed: " : ""}${row.text}`),
      );
    return item;
  }

  _whySame(row, part, fastest) {
    // Ratios are of whole plans; times of parts are compared as times.
    const words = [];
    const more = row.seconds - (part.seconds || fastest);
    const isFastest = row.seconds <= fastest * 1.0001;
    if (row.isHere && !isFastest) words.push("not the fastest alone, but in the plan as a whole");
    if (!row.isHere && !part.seconds && !isFastest)
      words.push(`${formatSeconds(more)} more than the fastest`);
    if (!row.isHere && part.seconds) {
      if (more === 0) words.push("as long alone");
      else if (more > 0) words.push(`lost: ${formatSeconds(more)} more`);
      else words.push(`${formatSeconds(-more)} less alone, but not faster in the plan as a whole`);
    }
    if (row.text) words.push(row.text);
    return words.join("; ");
  }

  _whyLarger(row, plan) {
    const spent = this.graph.facts.spentOn(plan, row.nodes);
    const whole = `only within a region of ${row.nodes.length} operators, which takes ${timeText(row)}`;
    if (!spent) return whole;
    const lost =
      row.seconds >= spent ? `, so it lost: ${formatSeconds(row.seconds - spent)} more` : "";
    return `${whole}; this plan spends ${formatSeconds(spent)} there${lost}`;
  }

  /** Who runs the same operators in the other plans; a click draws that plan. */
  _otherPlans(part) {
    const { name, plans } = this.graph;
    const wanted = new Set(part.nodes);
    const rows = Object.keys(plans)
      .filter((other) => other !== name)
      .map((other) => {
        const boxes = plans[other].boxes.filter((box) =>
          box.nodes.some((index) => wanted.has(index)),
        );
        const onclick = () => this.actions.plan(other);
        const row = html("button", { type: "button", class: "link", "data-other": other, onclick });
        row.append(html("span", { class: "grow" }, other), ...placesOf(boxes, wanted.size));
        return html("li", {}, row);
      });
    if (!rows.length) return [];
    return [html("h4", {}, "In the other plans"), html("ul", { class: "links" }, ...rows)];
  }

  /** The first operators of a part, and a button for the others. */
  _operators(nodes) {
    const list = html("ul", { class: "operators" });
    const add = (indexes) => list.append(...indexes.map((index) => this._operatorRow(index)));
    add(nodes.slice(0, MOST_OPERATORS));
    if (nodes.length <= MOST_OPERATORS) return list;
    const rest = html("button", { type: "button" }, `Show all ${nodes.length}`);
    rest.addEventListener("click", () => {
      add(nodes.slice(MOST_OPERATORS));
      rest.remove();
    });
    return html("div", {}, list, rest);
  }

  /** An operator with its shape and, on demand, its attributes. */
  _operatorRow(index) {
    const node = this.graph.facts.nodes.get(index);
    const head = [
      html("span", { class: "op" }, node.op || node.kind),
      html("span", { class: "mono" }, node.shape),
      html("span", { class: "muted" }, `#${index}`),
    ];
    const name = node.name ? html("div", { class: "muted name" }, node.name) : null;
    const rows = Object.entries(node.attrs).map(([key, value]) => [key, attributeText(value)]);
    if (!rows.length) return html("li", {}, html("div", { class: "op-line" }, ...head), name);
    const attributes = table(["attribute", "value"], rows, { class: "small" });
    const summary = html("summary", { class: "op-line" }, ...head);
    return html("li", {}, html("details", {}, summary, attributes), name);
  }

  _neighbours(k, title, side, end) {
    const edges = this.graph.arrangement[side].get(k);
    if (!edges.length) return [];
    return [
      html("h4", {}, title),
      html("ul", { class: "links" }, ...edges.map((edge) => this._link(edge[end]))),
    ];
  }

  _operatorLinks(title, indexes) {
    if (!indexes.length) return [];
    const links = indexes.map((index) => {
      const node = this.graph.facts.nodes.get(index);
      const words = html("span", { class: "grow" }, node.op || node.name || node.kind);
      const shape = html("span", { class: "muted" }, node.shape);
      const onclick = () => this.actions.node(index);
      return html(
        "li",
        {},
        html("button", { type: "button", class: "link", onclick }, words, shape),
      );
    });
    return [html("h4", {}, title), html("ul", { class: "links" }, ...links)];
  }

  _link(k) {
    const box = this.graph.plan.boxes[k];
    const time = box.backend ? box.time : "";
    const button = html("button", {
      type: "button",
      class: "link",
      onclick: () => this.actions.select(k),
    });
    button.append(
      ...(box.backend ? [swatch(box.backend)] : []),
      html("span", { class: "grow" }, box.label),
      html("span", { class: "muted" }, time),
    );
    return html("li", {}, button);
  }
}

/** The backends of boxes, with how many there are, or how much larger the one is than asked for. */
function placesOf(boxes, size) {
  const counts = new Map();
  for (const { backend } of boxes) counts.set(backend, (counts.get(backend) || 0) + 1);
  const [first] = boxes;
  const isLarger = boxes.length === 1 && first.nodes.length > size;
  const note = isLarger ? `of ${counted(first.nodes.length, "operator")}` : "";
  const places = [...counts].map(([backend, count]) =>
    html(
      "span",
      { class: "place" },
      swatch(backend),
      count > 1 ? `${count} × ${backend}` : backend,
    ),
  );
  return [...places, html("span", { class: "muted" }, note)];
}

/** [1, 1] for a list, which may hold lists. */
function attributeText(value) {
  return Array.isArray(value)
    ? `[${value.map(attributeText).join(", ")}]`
    : String(value).replace(EXACT, "");
}
