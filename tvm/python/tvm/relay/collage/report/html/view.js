// SPDX-License-Identifier: Apache-2.0
// Which piece of the drawing a stage shows: moved by dragging, wheel and two fingers.

const SMALLEST = 0.02;
const OVERVIEW = 0.1; // below it boxes are dots
const LARGEST = 2.5;
const MARGIN = 24; // pixels around what is fitted
const DRAG_BEGINS = 4; // pixels

class View {
  /**
   * bounds(): the drawing's {left, top, right, bottom}. covered(): how many pixels at the stage's
   * lower side are hidden. changed(): called after each change.
   */
  constructor(stage, bounds, covered, changed) {
    Object.assign(this, { stage, bounds, covered, changed, k: 1, x: 0, y: 0 });
    this.pointers = new Map();
    stage.addEventListener("wheel", (event) => this._wheel(event), { passive: false });
    stage.addEventListener("pointerdown", (event) => this._down(event));
    stage.addEventListener("pointermove", (event) => this._move(event));
    for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) {
      stage.addEventListener(name, (event) => this._up(event));
    }
    // A drag ends with a click, which is no click on a box.
    stage.addEventListener("click", (event) => this.wasDragged && event.stopPropagation(), true);
  }

  get width() {
    return this.stage.clientWidth;
  }

  get height() {
    return this.stage.clientHeight;
  }

  /** What of the drawing is seen, in its own coordinates. */
  seen() {
    const { k, x, y } = this;
    return {
      left: -x / k,
      top: -y / k,
      right: (this.width - x) / k,
      bottom: (this.height - y) / k,
    };
  }

  set(k, x, y) {
    const { left, top, right, bottom } = this.bounds();
    this.k = Math.min(LARGEST, Math.max(SMALLEST, k));
    this.x = inside(x, this.width, left * this.k, right * this.k);
    this.y = inside(y, this.height, top * this.k, bottom * this.k);
    this.changed();
  }

  pan(dx, dy) {
    this.set(this.k, this.x + dx, this.y + dy);
  }

  /** Larger or smaller around a point of the stage; its middle unless given. */
  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const k = Math.min(LARGEST, Math.max(SMALLEST, this.k * factor));
    const ratio = k / this.k;
    this.set(k, px - (px - this.x) * ratio, py - (py - this.y) * ratio);
  }

  /** All of the drawing, or as much as can still be told apart. */
  fitAll() {
    const { left, top, right, bottom } = this.bounds();
    const seen = this.seen();
    const whole = Math.min(1, this._fits(right - left, bottom - top));
    const k = Math.max(whole, OVERVIEW);
    const middle = whole < k ? (seen.top + seen.bottom) / 2 : (top + bottom) / 2;
    this._centre(k, (left + right) / 2, middle);
  }

  /** The drawing's beginning, as wide as can be read. */
  fitStart(readable) {
    const { left, top, right, bottom } = this.bounds();
    const wide = this._fits(right - left, 0);
    const whole = this._fits(right - left, bottom - top);
    const k = Math.min(1, whole >= readable ? whole : Math.max(readable, wide));
    // What is smaller than a tall stage begins at its top, where it is seen at once.
    this.set(k, this.width / 2 - (k * (left + right)) / 2, MARGIN - k * top);
  }

  /** Move as little as shows an area, larger only if nothing of it could be read. */
  show(area, readable) {
    if (this.k < readable)
      this._centre(readable, (area.left + area.right) / 2, (area.top + area.bottom) / 2);
    const seen = this.seen();
    seen.bottom -= this.covered() / this.k;
    const gap = MARGIN / this.k;
    const shift = (low, high, from, to) =>
      low - gap < from ? from - low + gap : high + gap > to ? to - high - gap : 0;
    const dx = shift(area.left, area.right, seen.left, seen.right);
    const dy = shift(area.top, area.bottom, seen.top, seen.bottom);
    if (dx || dy) this.pan(dx * this.k, dy * this.k);
  }

  /** Put a point of the drawing into the middle. */
  lookAt(x, y) {
    this._centre(this.k, x, y);
  }

  /** The scale at which so much fits. */
  _fits(width, height) {
    const room = [this.width - 2 * MARGIN, this.height - 2 * MARGIN];
    return Math.min(room[0] / Math.max(1, width), room[1] / Math.max(1, height));
  }

  _centre(k, x, y) {
    this.set(k, this.width / 2 - k * x, this.height / 2 - k * y);
  }

  _wheel(event) {
    const box = this.stage.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoom(
        Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)),
        event.clientX - box.left,
        event.clientY - box.top,
      );
      return;
    }
    const scale = event.deltaMode ? 20 : 1;
    const before = [this.x, this.y];
    this.pan(-event.deltaX * scale, -event.deltaY * scale);
    // At the drawing's end the page scrolls.
    if (this.x !== before[0] || this.y !== before[1]) event.preventDefault();
  }

  _down(event) {
    if (event.button > 0) return;
    this.pointers.set(event.pointerId, event);
    if (this.pointers.size === 1) this.wasDragged = false;
    this.from = event;
  }

  _move(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last) return;
    if (!this.wasDragged) {
      const far = Math.hypot(event.clientX - this.from.clientX, event.clientY - this.from.clientY);
      if (far < DRAG_BEGINS && this.pointers.size < 2) return;
      this.wasDragged = true;
      this.stage.setPointerCapture(event.pointerId);
      this.stage.classList.add("dragged");
    }
    const other = [...this.pointers.values()].find((one) => one.pointerId !== event.pointerId);
    this.pointers.set(event.pointerId, event);
    if (!other) {
      this.pan(event.clientX - last.clientX, event.clientY - last.clientY);
      return;
    }
    const apart = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
    const box = this.stage.getBoundingClientRect();
    this.zoom(
      apart(event) / Math.max(1, apart(last)),
      (event.clientX + other.clientX) / 2 - box.left,
      (event.clientY + other.clientY) / 2 - box.top,
    );
  }

  _up(event) {
    this.pointers.delete(event.pointerId);
    if (!this.pointers.size) this.stage.classList.remove("dragged");
  }
}

/** An offset with which [low, high] fills `size`, or lies inside it. */
function inside(offset, size, low, high) {
  const room = size - (high - low) - 2 * MARGIN;
  if (room >= 0) return Math.min(Math.max(offset, MARGIN - low), size - MARGIN - high);
  return Math.max(Math.min(offset, MARGIN - low), size - MARGIN - high);
}
