"use strict";
// Plans from a start to a goal: the cheapest, what it was compared with, and what each costs.

class PlanTab {
  constructor(page) {
    this.page = page;
    this.question = new LastQuestion("plan", (answer) => this.answered(answer), (error) => page.fail(this, error));
    this.draws = 0;
    this.candidates = page.slider("plan-candidates", 4, () => this.askAgain());
    page.element("draw-plans").addEventListener("click", () => {
      this.draws += 1;
      this.askAgain();
    });
  }

  open() {
    if (!this.start) [this.start, this.goal] = this.page.farStates();
    if (this.answer) this.show();
    else this.askAgain();
  }

  // After a start usually comes a goal, and after a goal another start.
  picked(point) {
    const clicks = [...document.querySelectorAll("input[name=plan-click]")];
    const now = clicks.find((input) => input.checked);
    clicks.find((input) => input !== now).checked = true;
    this.moved(now.value, point);
  }

  moved(name, point) {
    this[name] = point;
    this.askAgain();
    this.page.map.redraw();
  }

  marks() {
    if (!this.start) return [];
    const [start, goal] = this.answer && !this.question.busy
      ? [this.answer.path[0], this.answer.path[this.answer.path.length - 1]] : [this.start, this.goal];
    return [
      { name: "start", point: start, colour: "start", label: "start" },
      { name: "goal", point: goal, colour: "goal", shape: "star", label: "goal" },
    ];
  }

  askAgain() {
    this.page.say("Planning …");
    this.question.ask({ start: this.start, goal: this.goal, candidates: this.candidates(), draw: this.draws });
  }

  answered(answer) {
    this.answer = answer;
    this.show();
  }

  show() {
    if (!this.page.isOpen(this)) return;
    const { answer } = this;
    this.page.legend(null);
    const share = Math.round(100 * answer.off_support);
    this.page.say(`The cheapest of ${answer.candidates.length} plans as drawn: about ${Math.round(answer.steps)} steps. ` +
      "`scots plan` also searches for better ones.");
    this.page.facts("plan-facts", {
      cost: answer.cost.toFixed(1), steps: Math.round(answer.steps), "off the recorded support": `${share} %`,
    });
    const least = Math.min(...answer.candidates.map((own) => own.cost));
    const rows = answer.candidates.map((own, n) => ({ cells: [n + 1, own.cost.toFixed(1)], taken: own.cost === least }));
    const caption = "Cost, in steps: those that cannot be walked, plus a tenth of all.";
    this.page.table("plans", caption, rows, (n) => {
      this.pointed = n;
      this.page.map.redraw();
    });
    requestAnimationFrame(() => this.page.map.redraw());
  }

  draw(map) {
    if (!this.answer) return;
    this.answer.candidates.forEach((own, n) => {
      map.line(own.path, themeColour("candidate"), n === this.pointed ? 4 : 1.5, n === this.pointed ? 1 : 0.5);
    });
    map.line(this.answer.path, themeColour("plan"), 4);
  }
}
