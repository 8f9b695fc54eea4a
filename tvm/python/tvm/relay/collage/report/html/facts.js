// SPDX-License-Identifier: Apache-2.0
// What the report knows: nodes and costs of a function, and of a box what each backend would take.

const REPORT_TEXT = byId("report").textContent;
// What stands before a number that is kept as the text that it is: numbers of scripts have 53 bits,
// and no place for what tells 1.0 from 1.
const EXACT = "\u0001";
const LONG_INTEGER = "-?\\d{16,}";
const ANY_NUMBER = "-?\\d[\\d.eE+-]*";
const REPORT = parsed(REPORT_TEXT, LONG_INTEGER);
const TVM = "tvm";
const MOST_REASONS = 4;
const KNOWN = new Set(["measured", "estimated"]);
const HOST_KINDS = new Set([REPORT.host.split(" ", 1)[0], "host"]);

function colourOf(backend) {
  return (DATA.looks[backend] || DATA.looks[TVM]).colour;
}

function patternOf(backend) {
  const pattern = (DATA.looks[backend] || DATA.looks[TVM]).pattern;
  return pattern === "plain" ? "none" : `url(#pattern-${pattern})`;
}

/** The colour of what computes in fewer bits than float32. */
function precisionColour(precision) {
  return DATA.precisions[precision] || DATA.precisions[""];
}

/** Nodes and candidates of one function, found by node. */
class Facts {
  constructor(name) {
    this.row = REPORT.functions.find((row) => row.function === name);
    this.graph = this.row.graph;
    const { nodes } = DATA.functions.find((row) => row.function === name);
    this.nodes = new Map(
      this.graph.nodes.map((node) => [node.index, { ...node, ...nodes[node.index] }]),
    );
    this.candidatesOf = this._byNode([...this.graph.costed, ...this._placedElsewhere(name)]);
    this.reasonsOf = this._byNode(this.graph.reasons);
    const names = this.graph.backends.map((row) => row.name).filter((n) => !HOST_KINDS.has(n));
    this.backends = [...new Set([...names, TVM])];
  }

  /** Parts of all plans are candidates with costs, too: so those of TVM are known. */
  _placedElsewhere(name) {
    const rows = REPORT.placements.functions.find((row) => row.name === name);
    const parts = (rows ? rows.parts : []).filter((part) => KNOWN.has(part.cost.status));
    return parts.map((part) => ({
      backend: HOST_KINDS.has(part.backend) ? TVM : part.backend,
      rule: part.rule,
      nodes: part.nodes,
      cost: part.cost,
    }));
  }

  _byNode(rows) {
    const found = new Map();
    for (const row of rows) {
      for (const index of row.nodes) {
        if (!found.has(index)) found.set(index, []);
        found.get(index).push(row);
      }
    }
    return found;
  }

  /** The rows of one of the maps that hold any of these nodes, each once. */
  _rowsOf(map, nodes, backend) {
    const found = new Set();
    for (const index of nodes) {
      for (const row of map.get(index) || []) if (row.backend === backend) found.add(row);
    }
    return [...found];
  }

  /** The operators among nodes: what two sets must agree in to be the same computation. */
  _operators(nodes) {
    return nodes.filter((index) => this.nodes.get(index)?.reads);
  }

  /**
   * What a backend would make of a box: {kind, seconds, text, candidate}. kind: "same" for the same
   * operators, "larger" for the smallest region that holds them, "failed", "reason" as the search
   * gave it, "pieces" for parts of them, or "none".
   */
  elsewhere(box, backend) {
    const wanted = new Set(box.nodes);
    const rows = this._rowsOf(this.candidatesOf, box.nodes, backend).map((row) => {
      const nodes = this._operators(row.nodes);
      const shared = nodes.filter((index) => wanted.has(index)).length;
      return { row, nodes, holdsAll: shared === wanted.size, isInside: shared === nodes.length };
    });
    const isUsable = ({ row }) => row.cost.seconds != null && row.cost.status !== "failed";
    const cheapest = (list) =>
      list
        .filter(isUsable)
        .sort(
          (a, b) => a.nodes.length - b.nodes.length || a.row.cost.seconds - b.row.cost.seconds,
        )[0];
    const same = rows.filter((one) => one.holdsAll && one.isInside);
    const found = cheapest(same);
    if (found) return this._known("same", found);
    const larger = cheapest(rows.filter((one) => one.holdsAll));
    const failed = same.find(({ row }) => row.cost.seconds == null);
    if (failed) {
      const { status, message } = failed.row.cost;
      return {
        kind: "failed",
        text: `${status.replaceAll("_", " ")}${message ? `: ${message}` : ""}`,
      };
    }
    if (larger) return this._known("larger", larger);
    const reasons = this._rowsOf(this.reasonsOf, box.nodes, backend);
    if (reasons.length) return { kind: "reason", text: this._reasonsText(reasons, box) };
    const pieces = rows.filter((one) => one.isInside && isUsable(one));
    if (pieces.length) {
      const held = new Set(pieces.flatMap((one) => one.nodes)).size;
      return {
        kind: "pieces",
        text: `takes ${held} of these ${wanted.size} operators, in smaller parts`,
      };
    }
    return { kind: "none", text: "nothing is known of these operators there" };
  }

  /** Why the op-level plan did not give these to a backend: a line a reason. */
  _reasonsText(reasons, box) {
    const operators = new Map();
    for (const row of reasons) {
      const held = row.nodes.filter((index) => box.nodes.includes(index));
      const line = this._reasonText(row);
      operators.set(line, [...(operators.get(line) || []), ...held]);
    }
    const lines = [...operators].sort((a, b) => b[1].length - a[1].length);
    const shown = lines.slice(0, MOST_REASONS).map(([line, held]) => {
      if (new Set(held).size === box.nodes.length) return line;
      const names = new Set(held.map((index) => this.nodes.get(index).short));
      return `${held.length === 1 ? [...names][0] : `${held.length} of ${[...names].join(", ")}`}: ${line}`;
    });
    const left = lines.length - shown.length;
    return [...shown, ...(left > 0 ? [`and ${counted(left, "other reason")}`] : [])].join("\n");
  }

  _reasonText({ why, message, rule, candidate, instead_seconds }) {
    if (why === "refused" && rule) return `${rule} refused: ${message}`;
    if (why === "slower" && candidate != null) {
      const { cost, nodes } = this.graph.costed[candidate];
      const size = counted(this._operators(nodes).length, "operator");
      const here = instead_seconds
        ? `, the op-level plan ${formatSeconds(instead_seconds)} there`
        : "";
      return `slower: a part of ${size} takes ${timeText(cost)}${here}`;
    }
    const words = whyText(why);
    return message ? `${words}: ${message}` : words;
  }

  _known(kind, { row, nodes }) {
    return {
      kind,
      seconds: row.cost.seconds,
      nodes,
      flags: row.cost.flags || [],
      rule: row.rule,
      text: row.cost.message || "",
    };
  }

  /** What the boxes of a plan spend on these operators; null where a box holds others too. */
  spentOn(plan, operators) {
    const wanted = new Set(operators);
    let seconds = 0;
    for (const box of plan.boxes) {
      const shared = box.nodes.filter((index) => wanted.has(index)).length;
      if (!shared || box.kind === "input") continue;
      if (shared < box.nodes.length || box.seconds == null) return null;
      seconds += box.seconds;
    }
    return seconds;
  }
}

/** A reason's name for people. */
function whyText(why) {
  return why === "not_measured" ? "its cost was not asked for" : why.replaceAll("_", " ");
}

/** JSON's value, whose numbers of one look are texts behind EXACT. */
function parsed(text, number) {
  const numbers = `([\\[:,]\\s*)(${number})(?=\\s*[,\\]}])`;
  if (!new RegExp(numbers).test(text)) return JSON.parse(text);
  const textOrNumber = new RegExp(`"(?:[^"\\\\]|\\\\.)*"|${numbers}`, "g");
  const marked = text.replace(textOrNumber, (all, before, found) =>
    found == null ? all : `${before}"\\u0001${found}"`,
  );
  return JSON.parse(marked);
}

/** The file of one plan's placement, which `collage replay` and the option `placement` read. */
function placementText(plan) {
  const at = REPORT.placements.plans.findIndex((row) => row.plan === plan);
  const places = REPORT.placements.plans[at].parts;
  const exact = parsed(REPORT_TEXT, ANY_NUMBER).placements;
  const functions = exact.functions.map(({ name, key, weights, nodes, parts }) => ({
    name,
    key,
    weights,
    nodes,
    parts: (places[name] || []).map((place) => parts[place]),
  }));
  const { made_with, kernels } = exact.plans[at];
  const file = { ...DATA.placement_format, plan, made_with, functions, kernels };
  return JSON.stringify(file, null, 1).replace(/"\\u0001([^"]+)"/g, "$1");
}
