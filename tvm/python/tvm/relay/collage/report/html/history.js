// SPDX-License-Identifier: Apache-2.0
// The search of whole plans: the latency of each, the best so far and the op-level plan, once by
// trial and once by seconds. A plan that can be drawn is picked by a click.

/** A picture against trials, one against seconds, and the key of both. */
function historyOf(search, drawable, pick) {
  const { trials } = search;
  const ran = trials.filter((row) => row.seconds != null);
  if (!ran.length) return [];
  const axes = [
    ["trial", trials.map((_, k) => k + 1)],
    ["seconds since the search began", trials.map((row) => row.after_seconds)],
  ];
  const pictures = axes.map(([label, places]) =>
    html("div", { class: "scroll" }, historyPicture(search, label, places, drawable, pick)),
  );
  const key = html(
    "p",
    { class: "muted key" },
    "● a plan (large: a click draws it)   ✕ failed   ━ the best so far   ┄ the op-level plan",
  );
  return [...pictures, key];
}

/** Latency against the places of the trials on the axis of that label. */
function historyPicture(search, label, places, drawable, pick) {
  const { trials } = search;
  const [width, height, left, bottom] = [760, 260, 64, 34];
  const all = [...trials.map((row) => row.seconds), search.op_level_seconds].filter(Boolean);
  const [low, high] = [least(all), greatest(all)];
  const [from, to] = [low - 0.08 * (high - low || low), high + 0.08 * (high - low || low)];
  const most = greatest(places) || 1;
  const x = (k) => left + (places[k] / most) * (width - left - 12);
  const y = (seconds) => 10 + ((to - seconds) / (to - from)) * (height - bottom - 10);
  const text = `${label}, to ${round(most)}`;
  const picture = svg("svg", {
    class: "history",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `Latency of whole plans by ${text}`,
  });
  for (let k = 0; k <= 4; k++) {
    const value = from + (k / 4) * (to - from);
    picture.append(svg("line", { class: "grid", x1: left, x2: width, y1: y(value), y2: y(value) }));
    picture.append(
      svg("text", { class: "axis right", x: left - 8, y: y(value) + 4 }, formatSeconds(value)),
    );
  }
  if (search.op_level_seconds) {
    const at = y(search.op_level_seconds);
    picture.append(svg("line", { class: "base", x1: left, x2: width, y1: at, y2: at }));
  }
  let best = "";
  trials.forEach((row, k) => {
    if (row.best_seconds != null)
      best += best
        ? `H${round(x(k))}V${round(y(row.best_seconds))}`
        : `M${round(x(k))} ${round(y(row.best_seconds))}`;
    const title = svg(
      "title",
      {},
      `${row.name}: ${row.plan}: ${row.seconds == null ? row.status : formatSeconds(row.seconds)}`,
    );
    if (row.seconds == null)
      picture.append(svg("path", { class: "failed", d: `M${x(k) - 4} 6l8 8m0 -8l-8 8` }, title));
    else {
      const isDrawable = drawable.has(row.name);
      const onclick = () => isDrawable && pick(row.name);
      const place = { cx: x(k), cy: y(row.seconds), r: isDrawable ? 5 : 3, onclick };
      picture.append(
        svg("circle", { class: isDrawable ? "trial drawn" : "trial", ...place }, title),
      );
    }
  });
  picture.append(svg("path", { class: "best", d: best }));
  picture.append(svg("text", { class: "axis middle", x: (left + width) / 2, y: height - 4 }, text));
  return picture;
}
