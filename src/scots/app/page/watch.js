"use strict";
// An episode to scrub through: the path so far, the plan that was followed, and the subgoal.

const EPISODE_MILLISECONDS = 6000; // for which an episode is played, however long it is
const FRAME_MILLISECONDS = 40;

class WatchTab {
  constructor(page) {
    this.page = page;
    this.step = page.element("step");
    this.select = page.element("rollout");
    this.select.replaceChildren(...page.scene.rollouts.map((label, n) => new Option(label, n)));
    this.player = new Player(page.element("watch-play"), FRAME_MILLISECONDS, () => this.advance());
    this.select.addEventListener("change", () => this.load());
    this.step.addEventListener("input", () => this.show());
  }

  open() {
    if (this.rollout) this.show();
    else this.load();
  }

  close() {
    this.player.stop();
  }

  async load() {
    this.player.stop();
    try {
      this.rollout = await ask(`rollout/${this.select.value}`);
    } catch (error) {
      return this.page.fail(this, error);
    }
    this.step.max = this.rollout.path.length - 1;
    this.step.value = this.step.max;
    this.show();
  }

  advance() {
    const last = Number(this.step.max);
    const skip = Math.max(1, Math.round((last * FRAME_MILLISECONDS) / EPISODE_MILLISECONDS));
    const from = this.player.begun && Number(this.step.value) >= last ? -skip : Number(this.step.value);
    this.player.begun = false;
    this.step.value = Math.min(from + skip, last);
    this.show();
    return Number(this.step.value) < last;
  }

  show() {
    if (!this.rollout || !this.page.isOpen(this)) return;
    const step = Number(this.step.value);
    const [x, y] = this.rollout.path[step];
    this.page.element("step-shown").textContent = `${step} of ${this.step.max}`;
    this.page.legend(EARLY_LATE, "first step", "last");
    this.page.say(this.rollout.label);
    const facts = { position: `${x.toFixed(2)}, ${y.toFixed(2)}` };
    if (this.rollout.plans.length) facts["plans made"] = this.rollout.plans.filter((plan) => plan.step <= step).length;
    this.page.facts("watch-facts", facts);
    this.page.map.redraw();
  }

  // A click goes to the nearest step of the path.
  picked(point) {
    if (!this.rollout) return;
    const distances = this.rollout.path.map((own) => Math.hypot(own[0] - point[0], own[1] - point[1]));
    this.step.value = distances.indexOf(Math.min(...distances));
    this.show();
  }

  moved(_, point) {
    this.picked(point);
  }

  marks() {
    if (!this.rollout) return [];
    const step = Number(this.step.value);
    const { path, goal, subgoals } = this.rollout;
    const marks = goal ? [{ point: goal, colour: "goal", shape: "star", label: "goal" }] : [];
    const subgoal = subgoals[Math.min(step, subgoals.length - 1)];
    const isGoal = goal && subgoal && Math.hypot(goal[0] - subgoal[0], goal[1] - subgoal[1]) < 1e-3;
    if (subgoal && !isGoal) marks.push({ point: subgoal, colour: "subgoal", label: "subgoal" });
    return [...marks, { name: "agent", point: path[step], colour: "start" }];
  }

  draw(map) {
    if (!this.rollout) return;
    const step = Number(this.step.value);
    const { path, plans } = this.rollout;
    const followed = plans.filter((plan) => plan.step <= step).pop();
    if (followed) map.line(followed.path, themeColour("plan"), 2, 0.8);
    const parts = 60; // pieces of one colour: thousands of single steps would be slow to draw
    const length = Math.max(1, Math.ceil(path.length / parts));
    for (let n = 0; n < step; n += length) {
      map.line(path.slice(n, Math.min(n + length, step) + 1), colourAt(EARLY_LATE, (0.9 * n) / path.length), 3.5);
    }
  }
}
