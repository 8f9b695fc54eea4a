// SPDX-License-Identifier: Apache-2.0
// Elements of HTML and SVG, texts of numbers, files to save. Text is never read as markup.

const SVG = "http://www.w3.org/2000/svg";

/** The element of the page with this id. */
function byId(id) {
  return document.getElementById(id);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

/** An element of HTML; attributes that begin with "on" are listeners. */
function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** A text whose words between backticks are code. */
function withCode(text) {
  return text.split("`").map((words, k) => (k % 2 ? html("code", {}, words) : words));
}

/** An element of SVG. */
function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** The least of numbers, of which there may be more than a function takes arguments. */
function least(numbers) {
  return numbers.reduce((a, b) => Math.min(a, b), Infinity);
}

function greatest(numbers) {
  return numbers.reduce((a, b) => Math.max(a, b), -Infinity);
}

/** Three significant digits with a unit: 1.23 ms; a thousand of one is one of the next. */
function formatSeconds(seconds) {
  if (seconds == null) return "–";
  for (const [unit, scale] of [
    ["s", 1],
    ["ms", 1e-3],
    ["us", 1e-6],
    ["ns", 1e-9],
  ]) {
    if (seconds >= 0.9995 * scale || unit === "ns")
      return `${threeDigits(seconds / scale)} ${unit}`;
  }
}

/** The time of a part or cost with what makes it doubtful, or that nobody measured it. */
function timeText({ seconds, flags }) {
  return seconds == null ? "not measured" : formatSeconds(seconds) + notesText(flags);
}

/** What makes a time doubtful, in the order of all flags, to stand behind it, as " (busy)". */
function notesText(flags) {
  const told = DATA.flags.filter((flag) => flags && flags.includes(flag));
  return told.length ? ` (${told.join(", ")})` : "";
}

function threeDigits(value) {
  return String(Number(value.toPrecision(3)));
}

/** "1 part", "2 parts". */
function counted(count, what) {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

/** A table of texts or nodes; columns that begin with ">" stand to the right. */
function table(columns, rows, attributes = {}) {
  const isRight = columns.map((name) => name.startsWith(">"));
  const cells = (tag, texts) =>
    texts.map((text, k) => html(tag, isRight[k] ? { class: "right" } : {}, text));
  const head = html(
    "tr",
    {},
    ...cells(
      "th",
      columns.map((name) => name.replace(/^>/, "")),
    ),
  );
  const body = rows.map((row) => html("tr", {}, ...cells("td", row)));
  return html(
    "div",
    { class: "scroll" },
    html("table", attributes, html("thead", {}, head), html("tbody", {}, ...body)),
  );
}

/** The swatch of a backend: its colour and pattern. */
function swatch(backend) {
  const area = svg("rect", { width: 16, height: 16, rx: 4, class: "swatch-colour" });
  const lines = svg("rect", { width: 16, height: 16, rx: 4, fill: patternOf(backend) });
  const picture = svg(
    "svg",
    { class: "swatch", width: 16, height: 16, "aria-hidden": "true" },
    area,
    lines,
  );
  picture.style.setProperty("--c", colourOf(backend));
  return picture;
}

/** A backend's name beside its swatch. */
function chip(backend) {
  return html("span", { class: "chip" }, swatch(backend), backend);
}

/** Have the browser save a text. */
function saveFile(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = html("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
