"use strict";
// How many steps every place is from a state.

class DistanceTab {
  constructor(page) {
    this.page = page;
    this.hidesStates = true;
    this.question = new LastQuestion("distance", (answer) => this.answered(answer), (error) => page.fail(this, error));
  }

  open() {
    if (this.answer) this.show();
    else this.picked(this.page.firstState());
  }

  picked(point) {
    this.question.ask({ start: point });
  }

  moved(_, point) {
    this.picked(point);
  }

  marks() {
    return this.answer ? [{ name: "start", point: this.answer.state, colour: "start" }] : [];
  }

  answered(answer) {
    this.answer = answer;
    this.largest = Math.max(...answer.distances, 1);
    this.show();
  }

  show() {
    if (!this.page.isOpen(this)) return;
    const [x, y] = this.answer.state;
    this.page.legend(NEAR_FAR, "0 steps", `${Math.round(this.largest)} steps`);
    this.page.say(`From the recorded state (${x}, ${y}), the farthest place is ${Math.round(this.largest)} steps away.`);
    this.page.map.redraw();
  }

  draw(map) {
    if (!this.answer) return;
    const { low, edge, cells } = map.scene.grid;
    const corners = cells.map(([i, j]) => [low[0] + i * edge, low[1] + j * edge]);
    map.squares(corners, edge, (n) => colourAt(NEAR_FAR, this.answer.distances[n] / this.largest));
  }
}
