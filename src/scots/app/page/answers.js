"use strict";
// Where answers come from: the server, or an exported page that holds answers to the nearest questions.

const RECORDED = JSON.parse(document.getElementById("answers")?.textContent ?? "null");

// Fields of a question by which the nearest recorded one is found, the most important first.
const NEAREST_BY = ["start", "goal", "direction", "draw", "novelty_weight"];

async function ask(kind, question) {
  if (RECORDED) return recordedAnswer(kind, question);
  const options = question && {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(question),
  };
  const response = await fetch(`api/${kind}`, options || {}).catch(() => {
    throw new Error("the server does not answer: is `scots app` still running?");
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

function recordedAnswer(kind, question) {
  if (kind === "scene") return RECORDED.scene;
  if (kind.startsWith("rollout/")) return RECORDED.rollouts[Number(kind.split("/")[1])];
  let left = RECORDED[kind] ?? [];
  if (!left.length) throw new Error("this page holds no such answer");
  for (const field of NEAREST_BY) {
    const distances = left.map((item) => difference(item.question[field], question[field]));
    const least = Math.min(...distances);
    left = left.filter((_, n) => distances[n] === least);
  }
  const { answer } = left[0];
  return kind === "stitch" ? { ...answer, stitches: answer.stitches.slice(0, question.stitches) } : answer;
}

function difference(first, second) {
  if (first == null || second == null) return first == second ? 0 : Number.MAX_VALUE;
  if (Array.isArray(first)) return Math.hypot(first[0] - second[0], first[1] - second[1]);
  return Math.abs(first - second);
}

// Asks only the last of many questions that come one after the other, as while something is dragged.
class LastQuestion {
  constructor(kind, show, fail) {
    Object.assign(this, { kind, show, fail, waiting: null, busy: false });
  }

  ask(question) {
    this.waiting = question;
    if (!this.busy) this.run();
  }

  async run() {
    this.busy = true;
    while (this.waiting) {
      const question = this.waiting;
      this.waiting = null;
      try {
        const answer = await ask(this.kind, question);
        if (!this.waiting) this.show(answer, question);
      } catch (error) {
        if (!this.waiting) this.fail(error);
      }
    }
    this.busy = false;
  }
}
