"use strict";
// A trajectory that is stitched segment by segment, with the candidates of every stitch and their scores.

const STITCH_MILLISECONDS = 450; // for which a stitch is shown when it is played

class StitchTab {
  constructor(page) {
    this.page = page;
    this.question = new LastQuestion("stitch", (answer) => this.answered(answer), (error) => page.fail(this, error));
    this.start = null;
    this.direction = null; // null: a random one, number `drawn`
    this.drawn = 0;
    this.shown = 1; // stitches that are shown
    this.player = new Player(page.element("stitch-play"), STITCH_MILLISECONDS, () => this.advance());
    this.number = page.element("stitch-number");
    const defaults = page.scene.stitching;
    this.weight = page.slider("weight", defaults.novelty_weight, () => this.askAgain());
    this.stitches = page.slider("stitches", Math.min(defaults.stitches, 80), () => this.askAgain());
    this.number.addEventListener("input", () => this.goTo(Number(this.number.value)));
    page.element("stitch-back").addEventListener("click", () => this.goTo(this.shown - 1));
    page.element("stitch-forward").addEventListener("click", () => this.goTo(this.shown + 1));
    page.element("draw-direction").addEventListener("click", () => {
      this.drawn += this.direction ? 0 : 1;
      this.direction = null;
      this.askAgain();
    });
  }

  open() {
    if (this.start) return this.show();
    this.start = this.page.firstState();
    this.askAgain();
  }

  close() {
    this.player.stop();
  }

  picked(point) {
    this.moved(document.querySelector("input[name=stitch-click]:checked").value, point);
  }

  moved(name, point) {
    this[name] = point;
    this.askAgain();
  }

  marks() {
    if (!this.answer) return [];
    const { state, towards } = this.answer;
    const marks = [{ name: "start", point: state, colour: "start", label: "start" }];
    if (towards) marks.push({ name: "direction", point: towards, colour: "subgoal", label: "direction" });
    return marks;
  }

  askAgain() {
    this.player.stop();
    this.question.ask({
      start: this.start, direction: this.direction, draw: this.drawn, novelty_weight: this.weight(),
      stitches: this.stitches(),
    });
  }

  answered(answer) {
    this.answer = answer;
    this.number.max = answer.stitches.length;
    this.goTo(answer.stitches.length);
  }

  advance() {
    if (this.shown >= this.answer.stitches.length) {
      if (!this.player.begun) return false;
      this.shown = 0;
    }
    this.player.begun = false;
    this.goTo(this.shown + 1);
    return this.shown < this.answer.stitches.length;
  }

  goTo(shown) {
    if (!this.answer) return;
    this.shown = Math.min(Math.max(shown, 1), this.answer.stitches.length);
    this.show();
  }

  show() {
    if (!this.answer || !this.page.isOpen(this)) return;
    const stitch = this.answer.stitches[this.shown - 1];
    this.number.value = this.shown;
    this.page.element("stitch-number-shown").textContent = `${this.shown} of ${this.answer.stitches.length}`;
    this.page.legend(EARLY_LATE, "first stitch", "last");
    const way = this.direction ? "towards the mark" : `in random direction ${this.drawn}`;
    this.page.say(`Stitch ${this.shown}, ${way}: candidate ${stitch.best + 1} of ${stitch.paths.length} is taken, score ` +
      `${stitch.score[stitch.best].toFixed(2)}. Not refined: the joins still jump.`);
    this.list(stitch);
    this.page.map.redraw();
  }

  list(stitch) {
    const scaled = this.page.scene.stitching.standardised ? "both standardised over the candidates" : "as they are";
    const caption = `Score = progress + ${this.weight()} × novelty, ${scaled}. Gap: latent distance from the end so far.`;
    const rows = stitch.paths.map((_, n) => ({
      cells: [n + 1, ...["gap", "progress", "novelty", "score"].map((name) => stitch[name][n].toFixed(2))],
      taken: n === stitch.best,
    }));
    this.page.table("candidates", caption, rows, (n) => {
      this.pointed = n;
      this.page.map.redraw();
    });
  }

  draw(map) {
    if (!this.answer) return;
    const { stitches } = this.answer;
    const count = Math.max(stitches.length - 1, 1);
    const now = stitches[this.shown - 1];
    now.paths.forEach((path, n) => map.line(path, themeColour("candidate"), n === this.pointed ? 5 : 2, n === this.pointed ? 1 : 0.45));
    let end = null;
    stitches.slice(0, this.shown).forEach((stitch, n) => {
      const path = stitch.paths[stitch.best];
      const colour = colourAt(EARLY_LATE, (0.9 * n) / count);
      if (end) map.line([end, path[0]], colour, 1.5, 0.7);
      map.line(path, colour, n === this.shown - 1 ? 5.5 : 3.5);
      end = path[path.length - 1];
    });
    if (this.answer.towards) map.arrow(this.answer.state, this.answer.towards, themeColour("soft"));
  }
}
