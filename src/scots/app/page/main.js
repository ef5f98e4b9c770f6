"use strict";
// The page: its tabs, and what they share.

const TABS = { distance: DistanceTab, stitch: StitchTab, plan: PlanTab, watch: WatchTab };

// A button that plays and pauses; `advance` shows the next frame and says whether there is more.
class Player {
  constructor(button, milliseconds, advance) {
    Object.assign(this, { button, milliseconds, advance, timer: null });
    button.addEventListener("click", () => (this.timer ? this.stop() : this.play()));
  }

  play() {
    this.begun = true; // the first frame may start over
    this.button.textContent = "Pause";
    this.timer = setInterval(() => this.advance() || this.stop(), this.milliseconds);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = "Play";
  }
}

class Page {
  constructor(scene) {
    this.scene = scene;
    this.map = new MapView(this.element("map"));
    this.map.setScene(scene);
    document.title = `${scene.title} · scots`;
    this.element("title").textContent = scene.title;
    const facts = [...scene.facts, `axes: ${scene.axes.join(", ")}`];
    if (RECORDED) facts.push("one file without a server: it has answers for the ringed places, and shows the nearest");
    this.element("facts").textContent = facts.join(" · ");
    this.element("map").setAttribute("aria-label", `Map of ${scene.title}`);
    this.tabs = Object.fromEntries(
      Object.entries(TABS).map(([name, Tab]) => [name, scene.missing[name] ? new MissingTab(this, name) : new Tab(this)]),
    );
    this.listenToTabs();
    this.openNamed();
    addEventListener("hashchange", () => this.openNamed());
  }

  // The tab after # in the address, or the first that has something to show.
  openNamed() {
    const named = location.hash.slice(1);
    const first = Object.keys(TABS).find((name) => !this.scene.missing[name]) ?? "distance";
    this.open(named in TABS ? named : first);
  }

  element(id) {
    return document.getElementById(id);
  }

  listenToTabs() {
    const names = Object.keys(TABS);
    for (const [n, name] of names.entries()) {
      const button = this.element(`tab-${name}`);
      button.addEventListener("click", () => this.open(name));
      button.addEventListener("keydown", (event) => {
        const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!move) return;
        const next = names[(n + move + names.length) % names.length];
        this.open(next);
        this.element(`tab-${next}`).focus();
      });
    }
  }

  open(name) {
    this.map.layer?.close?.();
    for (const other of Object.keys(TABS)) {
      const button = this.element(`tab-${other}`);
      button.setAttribute("aria-selected", other === name);
      button.tabIndex = other === name ? 0 : -1;
      this.element(other).hidden = other !== name || Boolean(this.scene.missing[other]);
    }
    this.legend(null);
    this.map.layer = this.tabs[name];
    this.map.redraw();
    this.tabs[name].open();
  }

  // An answer may come after its tab was left: it must not be shown over another.
  isOpen(tab) {
    return this.map.layer === tab;
  }

  // ---------------------------------------------------------------------------------------------------- what is shown

  // Words in `backticks` are commands.
  say(words, isError = false) {
    const parts = words.split("`").map((part, n) => {
      if (n % 2 === 0) return part;
      const code = document.createElement("code");
      code.textContent = part;
      return code;
    });
    this.element("status").replaceChildren(...parts);
    this.element("status").classList.toggle("error", isError);
  }

  fail(tab, error) {
    if (this.isOpen(tab)) this.say(error.message, true);
  }

  legend(scale, low = "", high = "") {
    this.element("legend").style.visibility = scale ? "visible" : "hidden"; // it keeps its place: nothing jumps
    if (!scale) return;
    this.element("legend-low").textContent = low;
    this.element("legend-high").textContent = high;
    this.element("legend-bar").style.background = `linear-gradient(to right, ${scale.join(",")})`;
  }

  // A slider that shows its value; returns a function that reads it.
  slider(id, value, changed) {
    const [input, shown] = [this.element(id), this.element(`${id}-shown`)];
    const show = () => { shown.textContent = input.value; };
    input.value = value;
    show();
    input.addEventListener("input", () => {
      show();
      changed();
    });
    return () => Number(input.value);
  }

  facts(id, facts) {
    this.element(id).replaceChildren(...Object.entries(facts).map(([name, value]) => {
      const [pair, term, text] = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
      term.textContent = name;
      text.textContent = value;
      pair.append(term, text);
      return pair;
    }));
  }

  // Rows of cells; `pointed` is told which row a pointer is over or the keyboard is at, or none.
  table(id, caption, rows, pointed) {
    const table = this.element(id);
    table.caption.textContent = caption;
    table.tBodies[0].replaceChildren(...rows.map(({ cells, taken }, n) => {
      const row = document.createElement("tr");
      row.classList.toggle("taken", taken);
      cells.forEach((cell, column) => {
        const element = document.createElement(column ? "td" : "th");
        element.textContent = column || !taken ? cell : `${cell} ✓`;
        row.append(element);
      });
      row.tabIndex = 0;
      for (const kind of ["pointerenter", "focus"]) row.addEventListener(kind, () => pointed(n));
      for (const kind of ["pointerleave", "blur"]) row.addEventListener(kind, () => pointed(null));
      return row;
    }));
  }

  // -------------------------------------------------------------------------------------------------- where to begin

  // An exported page has answers for a few places only, and begins with one of them.
  firstState() {
    return RECORDED?.places?.[0] ?? this.scene.states[0];
  }

  farStates() {
    if (RECORDED?.places) return RECORDED.places.slice(0, 2);
    const [first, ...others] = this.scene.states;
    const away = (state) => Math.hypot(state[0] - first[0], state[1] - first[1]);
    return [first, others.reduce((far, state) => (away(state) > away(far) ? state : far), first)];
  }
}

// In place of a tab whose part of the run is not there: the command that makes it.
class MissingTab {
  constructor(page, name) {
    Object.assign(this, { page, name });
  }

  open() {
    this.page.say(`Not here yet. First run \`${this.page.scene.missing[this.name]}\``);
  }

  picked() {}

  moved() {}

  marks() {
    return [];
  }

  draw() {}
}

let page = null; // for the browser's console

ask("scene").then((scene) => { page = new Page(scene); }).catch((error) => {
  document.getElementById("status").textContent = error.message;
});
