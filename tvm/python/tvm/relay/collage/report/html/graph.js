// SPDX-License-Identifier: Apache-2.0
// The graph on its stage: what is near the piece that is seen is drawn, in as much detail as can be
// read there; selection by mouse and keys, a map of the whole beside it.

const READABLE = 0.55; // scale from which all texts are drawn
const NAMES = 0.26; // scale from which names are drawn
const AHEAD = 0.6; // of the stage's size, drawn on each side beyond what is seen

class GraphView {
  /** covered(): of View. selected(choice): called with {box, k, node}, or null, when it changes. */
  constructor(stage, map, covered, selected) {
    Object.assign(this, { stage, map, selected });
    this.edgeLayer = svg("g", { class: "edges" });
    this.boxLayer = svg("g", { class: "boxes" });
    this.world = svg("g", {}, this.edgeLayer, this.boxLayer);
    stage.append(svg("svg", { class: "drawing", "aria-hidden": "true" }, this.world));
    this.hidden = new Set();
    this.hits = new Set();
    this.open = new Set();
    this.choice = null;
    this.view = new View(
      stage,
      () => this.arrangement.bounds,
      covered,
      () => this._moved(),
    );
    stage.addEventListener("click", (event) => this._click(event));
    stage.addEventListener("dblclick", (event) => this._doubleClick(event));
    stage.addEventListener("keydown", (event) => this._key(event));
    map.addEventListener("pointerdown", (event) => this._mapMove(event));
    map.addEventListener("pointermove", (event) => event.buttons && this._mapMove(event));
    new ResizeObserver(() => this.arrangement && this._resized()).observe(stage);
  }

  /** Draw another plan or function; of the same function the choice stays, wherever it is now. */
  show(name, plans, insides, facts) {
    const kept = this.choice && this.facts === facts ? this.choice.box.nodes[0] : null;
    const plan = plans[name];
    Object.assign(this, { name, plans, plan, insides, facts });
    this.slowest = greatest([1e-12, ...plan.boxes.map((box) => box.seconds || 0)]);
    this.boxOf = new Map(plan.boxes.flatMap((box, k) => box.nodes.map((index) => [index, k])));
    this.open.clear();
    this.isFresh = true;
    this._arrange();
    this.choice = null;
    this._resized();
    this.select(this.boxOf.get(kept));
  }

  /** Open or close the boxes of these numbers. */
  toggle(boxes, isOpen) {
    const first = boxes[0] ?? 0;
    const before = this.arrangement.places[first];
    const [x, y] = [before.x, before.top];
    for (const k of boxes) {
      if (isOpen && this.plan.boxes[k].inside != null) this.open.add(k);
      else this.open.delete(k);
    }
    this._arrange();
    const place = this.arrangement.places[first];
    // What was opened stays where it is.
    this.view.pan((x - place.x) * this.view.k, (y - place.top) * this.view.k);
    if (boxes.length === 1) this.view.show(this.arrangement.area(first), 0);
    this.selected(this.choice);
  }

  /** Choose a box, and one operator of it if `node` is given; null for none. */
  select(k, node = null) {
    this.choice = k == null ? null : { k, box: this.plan.boxes[k], node };
    this.selected(this.choice);
    if (this.choice) this.view.show(this._areaOf(k, node), NAMES);
    this._draw();
  }

  /** Where a node is: its box is chosen. */
  selectNode(index) {
    const k = this.boxOf.get(index);
    if (k != null) this.select(k, this.open.has(k) ? index : null);
  }

  hide(backends) {
    this.hidden = backends;
    this._draw();
    this._drawMap();
  }

  mark(nodes) {
    this.hits = nodes;
    this._draw();
    this._drawMap();
  }

  fit() {
    this.view.fitAll();
  }

  /** After a change of the page's colours. */
  recolour() {
    this._drawMap();
  }

  _arrange() {
    this.arrangement = new Arrangement(this.plan, this.insides, this.open);
  }

  _areaOf(k, node) {
    const place = this.arrangement.places[k];
    if (node == null || !place.inside) return this.arrangement.area(k);
    const at = place.inside.places[place.inside.nodes.indexOf(node)];
    const left = place.x - place.inside.width / 2 + at.x - at.width / 2;
    const top = place.top + HEAD_HEIGHT + at.top;
    return { left, top, right: left + at.width, bottom: top + at.height };
  }

  _resized() {
    if (!this.stage.clientWidth) return;
    if (this.isFresh) {
      this.isFresh = false;
      this.view.fitStart(READABLE);
    } else this._moved();
    this._draw();
    this._drawMap();
  }

  _moved() {
    const { k, x, y } = this.view;
    this.world.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
    const seen = this.view.seen();
    const drawn = this.drawn;
    const isDrawn =
      drawn &&
      drawn.of === this.arrangement &&
      drawn.detail === this._detail() &&
      drawn.left <= seen.left &&
      drawn.right >= seen.right &&
      drawn.top <= seen.top &&
      drawn.bottom >= seen.bottom;
    if (!isDrawn) this._draw();
    this._drawMap();
  }

  _detail() {
    return this.view.k >= READABLE ? "all" : this.view.k >= NAMES ? "names" : "blocks";
  }

  /** Draw what is seen, and some way beyond. */
  _draw() {
    const seen = this.view.seen();
    const [dx, dy] = [AHEAD * (seen.right - seen.left), AHEAD * (seen.bottom - seen.top)];
    const area = {
      left: seen.left - dx,
      right: seen.right + dx,
      top: seen.top - dy,
      bottom: seen.bottom + dy,
    };
    const detail = this._detail();
    this.drawn = { ...area, of: this.arrangement, detail };
    const { layers, places } = this.arrangement;
    const boxes = [];
    for (const layer of layers) {
      if (layer.bottom < area.top || layer.top > area.bottom) continue;
      for (const k of layer.boxes) {
        const { x, width } = places[k];
        if (x + width / 2 >= area.left && x - width / 2 <= area.right)
          boxes.push(this._box(k, detail));
      }
    }
    this.boxLayer.replaceChildren(...boxes);
    this.edgeLayer.replaceChildren(...this._edges(area));
    this.stage.dataset.detail = detail;
  }

  _edges(area) {
    const { places } = this.arrangement;
    const chosen = this.choice ? this.choice.k : -1;
    const plain = [];
    const marked = [];
    for (const edge of this.plan.edges) {
      const [source, target] = [places[edge.source], places[edge.target]];
      if (target.top < area.top || source.top + source.height > area.bottom) continue;
      const paths = this.arrangement.lines(edge);
      (edge.source === chosen || edge.target === chosen ? marked : plain).push(...paths);
    }
    return [
      svg("path", { d: plain.join(""), class: "edge" }),
      svg("path", { d: marked.join(""), class: "edge marked" }),
    ];
  }

  _box(k, detail) {
    const box = this.plan.boxes[k];
    const place = this.arrangement.places[k];
    const isNamed = box.kind === "input" || box.kind === "output";
    const classes = ["box", isNamed ? "named" : box.kind];
    if (box.backend && this.hidden.has(box.backend)) classes.push("off");
    if (box.nodes.some((index) => this.hits.has(index))) classes.push("hit");
    if (this.choice && this.choice.k === k && this.choice.node == null) classes.push("chosen");
    if (place.inside) classes.push("open");
    const { left, top } = this.arrangement.area(k);
    const { width, height } = place;
    const group = svg("g", {
      class: classes.join(" "),
      "data-box": k,
      transform: `translate(${round(left)} ${round(top)})`,
    });
    group.append(svg("rect", { class: "face", width, height, rx: isNamed ? height / 2 : 9 }));
    if (isNamed) {
      if (detail !== "blocks")
        group.append(
          text(width / 2, height / 2 + 5, fitted(box.label, width - 24, FONTS.name), "name middle"),
        );
      return group;
    }
    group.style.setProperty("--c", colourOf(box.backend));
    group.append(svg("rect", { class: "band", x: 1, y: 1, width: 12, height: height - 2, rx: 8 }));
    const pattern = patternOf(box.backend);
    if (detail === "all" && pattern !== "none") {
      group.append(
        svg("rect", { x: 1, y: 1, width: 12, height: height - 2, rx: 8, fill: pattern }),
      );
    }
    if (box.precision) {
      const strip = { x: width - 8, y: 1, width: 7, height: height - 2, rx: 3.5 };
      group.append(svg("rect", { ...strip, fill: precisionColour(box.precision) }));
    }
    if (detail === "blocks") {
      if (place.inside) this._inside(group, place, detail);
      return group;
    }
    const hasInside = box.inside != null;
    const room = width - 32 - (hasInside ? 24 : 0);
    if (detail === "names" && !place.inside) {
      group.append(text(22, 40, fitted(box.label, width - 30, FONTS.large), "large"));
      return group;
    }
    group.append(text(22, 24, fitted(box.label, room, FONTS.name), "name"));
    if (hasInside) {
      group.append(
        svg(
          "g",
          { class: "toggle", "data-toggle": k, transform: `translate(${width - 26} 7)` },
          svg("rect", { width: 20, height: 20, rx: 6 }),
          svg("path", { d: place.inside ? "M5 10H15" : "M5 10H15M10 5V15" }),
        ),
      );
    }
    if (place.inside) this._inside(group, place, detail);
    else this._figures(group, box, width);
    return group;
  }

  /** Backend, precision, shape and time of a closed box. */
  _figures(group, box, width) {
    const words = box.time;
    const room = width - 44;
    // The backend's name and the time without its notes stand whole; the part's facts have the rest.
    const plain = measured(box.plain, FONTS.time);
    const who = box.precision ? `${box.backend} · ${box.precision}` : box.backend;
    const timeRoom = Math.max(
      room - measured(who, FONTS.small),
      plain + measured(" (…", FONTS.time),
    );
    const time = fitted(words, timeRoom, FONTS.time);
    const whereRoom = room - measured(time, FONTS.time);
    const hasShape = measured(`${who} · …`, FONTS.small) <= whereRoom;
    const where = hasShape ? `${who} · ${box.shape}` : who;
    group.append(text(22, 43, fitted(where, whereRoom, FONTS.small), "small"));
    group.append(text(width - 10, 43, time, "time right"));
    if (box.seconds == null) return;
    const long = width - 32;
    group.append(svg("rect", { class: "track", x: 22, y: 51, width: long, height: 4, rx: 2 }));
    const share = Math.max(2, (long * box.seconds) / this.slowest);
    group.append(
      svg("rect", { class: "spent", x: 22, y: 51, width: round(share), height: 4, rx: 2 }),
    );
  }

  /** The operators of an open box that are near what is seen. */
  _inside(group, place, detail) {
    const { inside } = place;
    const [left, top] = [(place.width - inside.width) / 2, HEAD_HEIGHT];
    const near = {
      top: this.drawn.top - place.top - top,
      bottom: this.drawn.bottom - place.top - top,
    };
    const inner = svg(
      "g",
      { transform: `translate(${round(left)} ${top})` },
      svg("path", { class: "edge inner", d: inside.lines(near).join("") }),
    );
    inside.nodes.forEach((index, k) => {
      const at = inside.places[k];
      if (at.top <= near.bottom && at.top + at.height >= near.top) {
        inner.append(this._operator(index, at, detail));
      }
    });
    group.append(inner);
  }

  _operator(index, { x, width, top, height }, detail) {
    const node = this.facts.nodes.get(index);
    const classes = ["operator"];
    if (this.hits.has(index)) classes.push("hit");
    if (this.choice && this.choice.node === index) classes.push("chosen");
    const one = svg(
      "g",
      {
        class: classes.join(" "),
        "data-node": index,
        transform: `translate(${round(x - width / 2)} ${top})`,
      },
      svg("rect", { class: "face", width, height, rx: 7 }),
    );
    if (detail === "blocks") return one;
    one.append(text(width / 2, 18, fitted(node.short, width - 12, FONTS.name), "name middle"));
    if (detail === "all") {
      const shape = fitted(node.shape, width - 12, FONTS.small);
      one.append(text(width / 2, 33, shape, "small middle"));
    }
    return one;
  }

  _click(event) {
    this.stage.focus({ preventScroll: true });
    const box = event.target.closest("[data-box]");
    if (!box) return this.select(null);
    const k = Number(box.dataset.box);
    if (event.target.closest("[data-toggle]")) return this.toggle([k], !this.open.has(k));
    const node = event.target.closest("[data-node]");
    this.select(k, node ? Number(node.dataset.node) : null);
  }

  _doubleClick(event) {
    const box = event.target.closest("[data-box]");
    if (!box || event.target.closest("[data-toggle]")) return;
    const k = Number(box.dataset.box);
    this.toggle([k], !this.open.has(k));
  }

  _key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = {
      ArrowDown: [0, -80],
      ArrowUp: [0, 80],
      ArrowLeft: [80, 0],
      ArrowRight: [-80, 0],
    }[event.key];
    if (step) {
      if (event.shiftKey) this.view.pan(...step);
      else this._step(event.key);
    } else if (event.key === "Enter" || event.key === " ") {
      if (this.choice) this.toggle([this.choice.k], !this.open.has(this.choice.k));
    } else if (event.key === "Escape") this.select(null);
    else if (event.key === "+" || event.key === "=") this.view.zoom(1.25);
    else if (event.key === "-") this.view.zoom(0.8);
    else if (event.key === "0") this.fit();
    else if (event.key === "Home") this.select(this._first());
    else return;
    event.preventDefault();
  }

  /** To a neighbour: down to what reads this box, up to what it reads, aside in its layer. */
  _step(key) {
    const { layers, into, outOf, places } = this.arrangement;
    if (!this.choice) return this.select(this._first());
    const { k } = this.choice;
    const nearest = (edges, side) =>
      edges
        .map((edge) => edge[side])
        .sort(
          (a, b) => Math.abs(places[a].x - places[k].x) - Math.abs(places[b].x - places[k].x),
        )[0];
    let next;
    if (key === "ArrowDown") next = nearest(outOf.get(k), "target");
    else if (key === "ArrowUp") next = nearest(into.get(k), "source");
    else {
      const layer = layers.find(({ boxes }) => boxes.includes(k)).boxes;
      next = layer[layer.indexOf(k) + (key === "ArrowRight" ? 1 : -1)];
    }
    if (next != null) this.select(next);
  }

  /** The first part of what is seen. */
  _first() {
    const seen = this.view.seen();
    const layer = this.arrangement.layers.find(({ top, boxes }) => top >= seen.top && boxes.length);
    return (layer || this.arrangement.layers[0]).boxes[0];
  }

  /** The whole, stretched to the map: a stripe for each layer, and what is seen as a frame. */
  _drawMap() {
    const { clientWidth: width, clientHeight: height } = this.map;
    if (!width) return;
    const ratio = window.devicePixelRatio || 1;
    const { bounds } = this.arrangement;
    const scaleX = width / (bounds.right - bounds.left);
    const scaleY = Math.min(height / (bounds.bottom - bounds.top), 1);
    Object.assign(this, { mapScale: [scaleX, scaleY] });
    if (
      this.map.width !== Math.round(width * ratio) ||
      this.map.height !== Math.round(height * ratio)
    ) {
      Object.assign(this.map, {
        width: Math.round(width * ratio),
        height: Math.round(height * ratio),
      });
    }
    const style = getComputedStyle(this.map);
    const pen = this.map.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.plan.boxes.forEach((box, k) => {
      if (!box.backend) return;
      const { left, top, right, bottom } = this.arrangement.area(k);
      const isHit = this.hits.size && box.nodes.some((index) => this.hits.has(index));
      pen.globalAlpha = this.hidden.has(box.backend) || (this.hits.size && !isHit) ? 0.15 : 1;
      pen.fillStyle = colourOf(box.backend);
      const tall = Math.max(1, (bottom - top) * scaleY - 0.5);
      pen.fillRect(
        (left - bounds.left) * scaleX,
        top * scaleY,
        Math.max(2, (right - left) * scaleX - 1),
        tall,
      );
    });
    pen.globalAlpha = 1;
    const seen = this.view.seen();
    pen.strokeStyle = style.getPropertyValue("--ink");
    pen.lineWidth = 2;
    const from = Math.max(1, seen.top * scaleY);
    const to = Math.min(height - 1, seen.bottom * scaleY);
    pen.strokeRect(1, from, width - 2, Math.max(4, to - from));
  }

  _mapMove(event) {
    const box = this.map.getBoundingClientRect();
    const seen = this.view.seen();
    const { left } = this.arrangement.bounds;
    const isWide = seen.right - seen.left < this.arrangement.bounds.right - left;
    const x = isWide
      ? left + (event.clientX - box.left) / this.mapScale[0]
      : (seen.left + seen.right) / 2;
    this.view.lookAt(x, (event.clientY - box.top) / this.mapScale[1]);
  }
}

const FONTS = {
  name: "600 13px system-ui, sans-serif",
  small: "12px system-ui, sans-serif",
  time: "600 12px system-ui, sans-serif",
  large: "600 24px system-ui, sans-serif",
};
const measuring = document.createElement("canvas").getContext("2d");
const widths = new Map();

function measured(words, font) {
  const key = font + words;
  if (!widths.has(key)) {
    measuring.font = font;
    widths.set(key, measuring.measureText(words).width);
  }
  return widths.get(key);
}

/** As much of a text as fits. */
function fitted(words, room, font) {
  if (measured(words, font) <= room) return words;
  let [low, high] = [0, words.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measured(`${words.slice(0, middle)}…`, font) <= room) low = middle;
    else high = middle - 1;
  }
  return low ? `${words.slice(0, low).trimEnd()}…` : "";
}

function text(x, y, words, classes) {
  return svg("text", { x: round(x), y, class: classes }, words);
}
