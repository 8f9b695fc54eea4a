// SPDX-License-Identifier: Apache-2.0
// The front of time against error: choices of precisions by layer as they were foreseen, what was
// built as it was measured, and the error that is allowed.

const LEAST_ERROR = 1e-5; // what errs less stands at the left end

/** A picture of the front with its key; nothing where no time is known. */
function frontOf(told) {
  const float = told.plans.find((row) => row.name === "float32");
  if (!float || !float.seconds) return [];
  const foreseen = told.front
    .filter((point) => point.error != null && point.saves_seconds != null)
    .map((point) => ({
      error: point.error,
      seconds: Math.max(0, float.seconds - point.saves_seconds),
      words: `foreseen: ${Object.entries(point.layers)
        .map(([name, count]) => `${counted(count, "layer")} in ${name}`)
        .join(", ")}`,
    }));
  const built = told.plans
    .filter((row) => row.seconds && row.output_error != null)
    .map((row) => ({
      error: row.output_error,
      seconds: row.seconds,
      words: row.name,
      isChosen: row.is_chosen,
    }));
  const picture = html("div", { class: "scroll" }, frontPicture(foreseen, built, told));
  const key =
    "● built, and measured (large: it ships)   ○ foreseen by profiles   ┄ the error that is allowed";
  return [picture, html("p", { class: "muted key" }, key)];
}

/** Time against error, which is on a scale of powers of ten. */
function frontPicture(foreseen, built, { metric, budget }) {
  const [width, height, left, bottom] = [760, 280, 64, 40];
  const points = [...foreseen, ...built];
  const power = (error) => Math.log10(Math.max(error, LEAST_ERROR));
  const powers = [power(budget), ...points.map(({ error }) => power(error))];
  const [first, last] = [Math.floor(least(powers)), Math.ceil(greatest(powers) + 0.01)];
  const most = 1.1 * greatest(points.map(({ seconds }) => seconds));
  const x = (error) => left + 12 + ((power(error) - first) / (last - first)) * (width - left - 44);
  const y = (seconds) => 10 + (1 - seconds / most) * (height - bottom - 10);
  const picture = svg("svg", {
    class: "history",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `Time against error by ${metric}`,
  });
  const line = (of, x1, y1, x2, y2) => picture.append(svg("line", { class: of, x1, y1, x2, y2 }));
  const words = (of, at, down, text) =>
    picture.append(svg("text", { class: `axis ${of}`, x: at, y: down }, text));
  for (let k = 0; k <= 4; k++) {
    const value = (k / 4) * most;
    line("grid", left, y(value), width, y(value));
    words("right", left - 8, y(value) + 4, formatSeconds(value));
  }
  for (let of = first; of <= last; of++)
    words("middle", x(10 ** of), height - 22, percent(10 ** of));
  words("middle", (left + width) / 2, height - 4, `error by the metric ${metric}`);
  line("base", x(budget), 10, x(budget), y(0));
  for (const { error, seconds, words: title } of foreseen)
    picture.append(
      svg(
        "circle",
        { class: "foreseen", cx: x(error), cy: y(seconds), r: 4 },
        svg("title", {}, `${title}: ${formatSeconds(seconds)}, error ${percent(error)}`),
      ),
    );
  for (const { error, seconds, words: name, isChosen } of built) {
    const title = svg("title", {}, `${name}: ${formatSeconds(seconds)}, error ${percent(error)}`);
    const isLeft = x(error) > width - 120;
    const r = isChosen ? 7 : 4.5;
    picture.append(svg("circle", { class: "built", cx: x(error), cy: y(seconds), r }, title));
    words(isLeft ? "right" : "", x(error) + (isLeft ? -11 : 11), y(seconds) + 4, name);
  }
  return picture;
}

/** An error as people read it: 0.4 %. */
function percent(error) {
  return error ? `${threeDigits(100 * error)} %` : "0 %";
}
