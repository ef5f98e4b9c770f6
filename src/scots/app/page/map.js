"use strict";
// The map: a canvas with the data, whatever a tab draws over it, and marks that can be dragged.

const GRAB = 22; // pixels around a mark in which it is grabbed, enough for a finger
const CLICK = 6; // pixels that a pointer may move in a click
const CROSS_STEP = 1 / 60; // of the window that an arrow key moves the cross

class MapView {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.layer = null; // { draw(map), marks(), picked(point), moved(mark, point) } of the open tab
    this.pointers = new Map();
    this.cross = null;
    new ResizeObserver(() => this.resize()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    for (const kind of ["pointerdown", "pointermove", "pointerup", "pointercancel", "wheel", "keydown"]) {
      canvas.addEventListener(kind, (event) => this[kind](event), { passive: false });
    }
    canvas.addEventListener("blur", () => this.redraw());
  }

  setScene(scene) {
    this.scene = scene;
    this.showAll();
  }

  // ------------------------------------------------------------------------------------------------- data and pixels

  resize() {
    const { clientWidth, clientHeight } = this.canvas;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(clientWidth * ratio);
    this.canvas.height = Math.round(clientHeight * ratio);
    this.ratio = ratio;
    if (this.scene && !this.zoomed) this.showAll();
    else this.redraw();
  }

  showAll() {
    const { low, high } = this.scene;
    const { clientWidth, clientHeight } = this.canvas;
    this.scale = Math.min(clientWidth / (high[0] - low[0]), clientHeight / (high[1] - low[1]));
    this.center = [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2];
    this.zoomed = false;
    this.redraw();
  }

  toPixels([x, y]) {
    const { clientWidth, clientHeight } = this.canvas;
    return [clientWidth / 2 + (x - this.center[0]) * this.scale, clientHeight / 2 - (y - this.center[1]) * this.scale];
  }

  toData([left, top]) {
    const { clientWidth, clientHeight } = this.canvas;
    return [
      this.center[0] + (left - clientWidth / 2) / this.scale, this.center[1] - (top - clientHeight / 2) / this.scale,
    ];
  }

  zoom(factor, at) {
    const before = this.toData(at);
    this.scale *= factor;
    const after = this.toData(at);
    this.center = [this.center[0] + before[0] - after[0], this.center[1] + before[1] - after[1]];
    this.zoomed = true;
    this.redraw();
  }

  // --------------------------------------------------------------------------------------------------------- drawing

  redraw() {
    if (this.drawing || !this.scene) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = null;
      this.draw();
    });
  }

  draw() {
    const { context, scene, canvas } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    if (scene.walls) this.squares(scene.walls.centers, scene.walls.side, () => themeColour("wall"), true);
    if (!this.layer?.hidesStates) this.dots(scene.states, themeColour("state"), 1.2);
    this.layer?.draw(this);
    for (const place of RECORDED?.places ?? []) this.ring(place);
    for (const mark of this.layer?.marks() ?? []) this.mark(mark);
    if (this.cross && document.activeElement === canvas) this.drawCross();
  }

  squares(points, side, colourOf, centered) {
    const size = side * this.scale;
    points.forEach((point, n) => {
      const [left, bottom] = this.toPixels(centered ? [point[0] - side / 2, point[1] - side / 2] : point);
      this.context.fillStyle = colourOf(n);
      this.context.fillRect(left, bottom - size, size + 0.6, size + 0.6); // no seams between neighbours
    });
  }

  dots(points, colour, radius) {
    this.context.fillStyle = colour;
    for (const point of points) {
      const [left, top] = this.toPixels(point);
      this.context.fillRect(left - radius, top - radius, 2 * radius, 2 * radius);
    }
  }

  line(points, colour, width, opacity = 1) {
    const { context } = this;
    context.globalAlpha = opacity;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.lineJoin = context.lineCap = "round";
    context.beginPath();
    points.forEach((point, n) => context[n ? "lineTo" : "moveTo"](...this.toPixels(point)));
    context.stroke();
    context.globalAlpha = 1;
  }

  arrow(from, to, colour) {
    const [start, end] = [this.toPixels(from), this.toPixels(to)];
    const angle = Math.atan2(end[1] - start[1], end[0] - start[0]);
    const tips = [2.6, -2.6].map((turn) => this.toData([
      end[0] + 14 * Math.cos(angle + turn), end[1] + 14 * Math.sin(angle + turn),
    ]));
    this.context.setLineDash([6, 5]);
    this.line([from, to], colour, 2);
    this.context.setLineDash([]);
    this.line([tips[0], to, tips[1]], colour, 2.5);
  }

  // A place that an exported page has answers for.
  ring(point) {
    const { context } = this;
    context.beginPath();
    context.arc(...this.toPixels(point), 6, 0, 2 * Math.PI);
    context.strokeStyle = themeColour("ink");
    context.lineWidth = 1.5;
    context.stroke();
  }

  mark({ point, shape, colour, label }) {
    const { context } = this;
    const [left, top] = this.toPixels(point);
    context.beginPath();
    if (shape === "star") {
      for (let n = 0; n < 10; n += 1) {
        const radius = n % 2 ? 5 : 12;
        context.lineTo(left + radius * Math.sin((n * Math.PI) / 5), top - radius * Math.cos((n * Math.PI) / 5));
      }
      context.closePath();
    } else {
      context.arc(left, top, 8, 0, 2 * Math.PI);
    }
    context.fillStyle = themeColour(colour);
    context.strokeStyle = themeColour("ink");
    context.lineWidth = 2;
    context.fill();
    context.stroke();
    if (label) {
      context.font = "600 13px system-ui, sans-serif";
      context.lineWidth = 4;
      context.strokeStyle = themeColour("paper");
      context.fillStyle = themeColour("ink");
      const width = context.measureText(label).width;
      const begin = left + 13 + width < this.canvas.clientWidth ? left + 13 : left - 13 - width;
      context.strokeText(label, begin, top - 10);
      context.fillText(label, begin, top - 10);
    }
  }

  drawCross() {
    const [left, top] = this.toPixels(this.cross);
    const paint = (colour, width) => {
      this.line([this.toData([left - 12, top]), this.toData([left + 12, top])], colour, width);
      this.line([this.toData([left, top - 12]), this.toData([left, top + 12])], colour, width);
    };
    paint(themeColour("paper"), 5);
    paint(themeColour("cross"), 2.5);
  }

  // -------------------------------------------------------------------------------------------------- pointer and keys

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  pointerdown(event) {
    if (!this.scene) return;
    this.canvas.setPointerCapture(event.pointerId);
    const at = this.at(event);
    this.pointers.set(event.pointerId, at);
    this.begun = at;
    this.isClick = this.pointers.size === 1;
    const near = (mark) => Math.hypot(...this.toPixels(mark.point).map((value, n) => value - at[n]));
    const marks = (this.layer?.marks() ?? []).filter((mark) => mark.name && near(mark) < GRAB);
    this.grabbed = this.isClick ? (marks.sort((first, second) => near(first) - near(second))[0]?.name ?? null) : null;
  }

  pointermove(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const at = this.at(event);
    if (Math.hypot(at[0] - this.begun[0], at[1] - this.begun[1]) > CLICK) this.isClick = false;
    if (this.pointers.size === 2) this.pinch(event.pointerId, before, at);
    else if (!this.isClick && this.grabbed) this.layer.moved(this.grabbed, this.toData(at));
    else if (!this.isClick) this.pan(at[0] - before[0], at[1] - before[1]);
    this.pointers.set(event.pointerId, at);
  }

  pan(right, down) {
    this.center = [this.center[0] - right / this.scale, this.center[1] + down / this.scale];
    this.zoomed = true;
    this.redraw();
  }

  pinch(moved, before, at) {
    const [, other] = [...this.pointers].find(([id]) => id !== moved);
    const length = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1;
    this.zoom(length(at) / length(before), other);
  }

  pointerup(event) {
    if (this.isClick && this.pointers.has(event.pointerId)) this.layer?.picked(this.toData(this.at(event)));
    this.pointers.delete(event.pointerId);
  }

  pointercancel(event) {
    this.pointers.delete(event.pointerId);
  }

  wheel(event) {
    if (!this.scene) return;
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY / 400), this.at(event));
  }

  keydown(event) {
    const middle = [this.canvas.clientWidth / 2, this.canvas.clientHeight / 2];
    const step = CROSS_STEP * (event.shiftKey ? 5 : 1) * Math.min(...middle) * 2;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    const [left, top] = this.cross ? this.toPixels(this.cross) : middle;
    if (event.key in moves) {
      const [right, down] = moves[event.key];
      const inside = (value, most) => Math.min(Math.max(value, 0), most);
      this.cross = this.toData([inside(left + right, 2 * middle[0]), inside(top + down, 2 * middle[1])]);
      this.redraw();
    } else if (event.key === "Enter" || event.key === " ") {
      this.cross ??= this.toData(middle);
      this.layer?.picked(this.cross);
    } else if (event.key === "+" || event.key === "=") this.zoom(1.25, [left, top]);
    else if (event.key === "-") this.zoom(0.8, [left, top]);
    else if (event.key === "0") this.showAll();
    else return;
    event.preventDefault();
  }
}
