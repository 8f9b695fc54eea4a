// SPDX-License-Identifier: Apache-2.0
// Where boxes, open boxes and edges are, of places that the report has; the paths of edges.

const LAYER_GAP = 46;
const BOX_HEIGHT = 62;
const NAMED_HEIGHT = 34;
const HEAD_HEIGHT = 40; // of an open box
const OPERATOR_HEIGHT = 42;
const INSIDE_GAP = 24;
const PADDING = 14;
const SIDE = 24; // on each side of the operators in an open box
const BOX_GAP = 28;
const BEND_GAP = 12;

/** The boxes of a plan with their places; those in `open` show what is inside them. */
class Arrangement {
  constructor(plan, insides, open) {
    this.plan = plan;
    const count = plan.boxes.length;
    this.places = plan.x.map((x, k) => ({ x, width: plan.widths[k] }));
    plan.boxes.forEach((box, k) => {
      const inside = open.has(k) && box.inside != null ? new Inside(insides[box.inside]) : null;
      const place = this.places[k];
      place.inside = inside;
      place.height = box.kind === "input" || box.kind === "output" ? NAMED_HEIGHT : BOX_HEIGHT;
      if (inside) {
        place.height = HEAD_HEIGHT + inside.height + PADDING;
        place.width = Math.max(place.width, inside.width + 2 * SIDE);
      }
    });
    this.layers = [];
    let top = 0;
    for (const items of plan.layers) {
      const boxes = items.filter((k) => k < count);
      if (boxes.some((k) => this.places[k].inside)) this._spread(items, count);
      const height = greatest([0, ...boxes.map((k) => this.places[k].height)]);
      for (const k of items) Object.assign(this.places[k], { top, layerBottom: top + height });
      this.layers.push({ top, bottom: top + height, boxes });
      top += height + LAYER_GAP;
    }
    const edgesOf = (side) => {
      const map = new Map(plan.boxes.map((_, k) => [k, []]));
      plan.edges.forEach((edge) => map.get(edge[side]).push(edge));
      return map;
    };
    this.into = edgesOf("target");
    this.outOf = edgesOf("source");
    this.bounds = {
      left: least(this.places.map((one) => one.x - one.width / 2)),
      right: greatest(this.places.map((one) => one.x + one.width / 2)),
      top: 0,
      bottom: Math.max(0, top - LAYER_GAP),
    };
  }

  /** Make room for open boxes: as little away from the old places as keeps items apart. */
  _spread(items, count) {
    const pools = [];
    let offset = 0;
    items.forEach((item, k) => {
      const place = this.places[item];
      if (k) {
        const before = items[k - 1];
        const gap = before < count && item < count ? BOX_GAP : BEND_GAP;
        offset += (this.places[before].width + place.width) / 2 + gap;
      }
      place.offset = offset;
      let pool = { mean: place.x - offset, size: 1 };
      while (pools.length && pools.at(-1).mean > pool.mean) {
        const other = pools.pop();
        const size = other.size + pool.size;
        pool = { mean: (other.mean * other.size + pool.mean * pool.size) / size, size };
      }
      pools.push(pool);
    });
    const means = pools.flatMap(({ mean, size }) => Array(size).fill(mean));
    items.forEach((item, k) => (this.places[item].x = means[k] + this.places[item].offset));
  }

  /** Of a box: its {left, top, right, bottom}. */
  area(k) {
    const { x, width, top, height } = this.places[k];
    return { left: x - width / 2, top, right: x + width / 2, bottom: top + height };
  }

  /** The lines of an edge: one, or one for each value where an end is open. */
  lines(edge) {
    const [source, target] = [this.places[edge.source], this.places[edge.target]];
    const values = source.inside || target.inside ? edge.values : edge.values.slice(0, 1);
    return values.map((value) => {
      const points = [[portX(source, value, "goes"), source.top + source.height]];
      if (source.top + source.height < source.layerBottom)
        points.push([points[0][0], source.layerBottom]);
      for (const bend of edge.bends) {
        const { x, top, layerBottom } = this.places[bend];
        points.push([x, top], [x, layerBottom]);
      }
      points.push([portX(target, value, "comes"), target.top]);
      return pathThrough(points);
    });
  }
}

/** The operators in an open box, by places from the box's inner corner. */
class Inside {
  constructor(found) {
    this.found = found;
    this.nodes = found.nodes;
    const count = found.nodes.length;
    this.places = found.x.map((x, k) => ({ x, width: found.widths[k] }));
    let top = 0;
    for (const items of found.layers) {
      const height = items.some((k) => k < count) ? OPERATOR_HEIGHT : 0;
      for (const k of items)
        Object.assign(this.places[k], {
          top,
          layerBottom: top + height,
          height: k < count ? OPERATOR_HEIGHT : 0,
        });
      top += height + INSIDE_GAP;
    }
    this.height = top - INSIDE_GAP;
    this.width = greatest(this.places.map((one) => one.x + one.width / 2));
  }

  /** The lines of edges that pass between two heights. */
  lines(near) {
    const { places } = this;
    const isNear = ({ source, target }) =>
      places[source].top <= near.bottom && places[target].top + OPERATOR_HEIGHT >= near.top;
    return this.found.edges.filter(isNear).map(({ source, target, bends }) => {
      const [from, to] = [this.places[source], this.places[target]];
      // What comes in begins below the box's head, what goes out ends at its lower side.
      const points = [[from.x, from.height ? from.top + from.height : from.top - 10]];
      for (const bend of bends)
        points.push(
          [this.places[bend].x, this.places[bend].top],
          [this.places[bend].x, this.places[bend].layerBottom],
        );
      points.push([to.x, to.height ? to.top : to.top + PADDING]);
      return pathThrough(points);
    });
  }

  /** Where a value comes in or goes out. */
  port(value, side) {
    const { nodes, comes, goes } = this.found;
    const k =
      nodes.length + (side === "comes" ? comes.indexOf(value) : comes.length + goes.indexOf(value));
    return this.places[k].x;
  }
}

function portX(place, value, side) {
  if (!place.inside) return place.x;
  return place.x - place.inside.width / 2 + place.inside.port(value, side);
}

/** A smooth line downward; what is straight stays so. */
function pathThrough(points) {
  let path = `M${round(points[0][0])} ${round(points[0][1])}`;
  for (let k = 1; k < points.length; k++) {
    const [[x1, y1], [x2, y2]] = [points[k - 1], points[k]];
    if (Math.abs(x1 - x2) < 0.5) path += `V${round(y2)}`;
    else
      path += `C${round(x1)} ${round((y1 + y2) / 2)} ${round(x2)} ${round((y1 + y2) / 2)} ${round(x2)} ${round(y2)}`;
  }
  return path;
}

function round(value) {
  return Math.round(10 * value) / 10;
}
