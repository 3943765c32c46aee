// Predictions of the task models for a text, or for a pair of texts.

import * as api from "./api.js";
import { byId, element } from "./dom.js";

// The names of the two texts of a pair.
const PAIRS = { pair: ["Premise", "Hypothesis"], answer: ["Question", "Paragraph"] };
const SHOW = {
  labels: showLabels,
  label: (_, { label }) => [answer(label ?? "")],
  frames: showFrames,
  clusters: showClusters,
  pair: (_, { label }) => [answer(label)],
  answer: showAnswer,
};
const N_COLORS = 8;
let asked = 0; // late predictions are ignored

// `tasks`: kinds by name.
export function setUpTasks(tasks) {
  const names = Object.keys(tasks);
  byId("tasks").hidden = names.length === 0;
  byId("task").replaceChildren(...names.map((name) => element("option", { value: name }, name)));
  const chosen = () => tasks[byId("task").value];
  const showInputs = () => {
    asked++;
    const pair = PAIRS[chosen()];
    byId("first-part").hidden = !pair;
    byId("first-name").textContent = pair?.[0] ?? "";
    byId("text-name").textContent = pair?.[1] ?? "Text";
    showPrediction([], "");
  };
  byId("task").onchange = showInputs;
  byId("predict").onclick = () => predict(byId("task").value, chosen());
  showInputs();
}

async function predict(task, kind) {
  const number = ++asked;
  const text = byId("task-text").value;
  let message = "";
  let shown = [];
  byId("prediction").ariaBusy = "true";
  try {
    if (!text.trim()) throw new Error("The text is empty.");
    const body = PAIRS[kind] ? { pairs: [[byId("first-text").value, text]] } : { texts: [text] };
    const { texts, pairs } = await api.predict(task, body);
    shown = SHOW[kind](text, (pairs ?? texts)[0]);
  } catch (error) {
    message = error.message;
  }
  if (number === asked) showPrediction(shown, message);
}

function showPrediction(shown, message) {
  byId("prediction").replaceChildren(...shown);
  byId("task-error").textContent = message;
  byId("prediction").ariaBusy = "false";
}

const nothing = (text) => element("p", { class: "hint" }, text);
const answer = (text) => element("p", { class: "answer", dir: "auto" }, text);

// Spans of BIO or BILOU labels; a label without prefix is a span of its own.
function showLabels(text, { offsets, labels }) {
  const found = [];
  labels.forEach((label, k) => {
    const kind = label === "O" ? "" : label.replace(/^[BIESLU]-/, "");
    const last = found.at(-1);
    if (!kind) return;
    if (/^[IEL]-/.test(label) && last?.end === k && last.name === kind) last.end = k + 1;
    else found.push({ start: k, end: k + 1, name: kind });
  });
  return [markSpans(text, offsets, found, namesOf(found.map(({ name }) => name)))];
}

// One paragraph per predicate, with the text from its first argument to its last.
function showFrames(text, { offsets, frames }) {
  if (frames.length === 0) return [nothing("No predicate found.")];
  const roles = frames.flatMap(({ arguments: given }) => given.map(({ role }) => role));
  const names = namesOf(["V", ...roles]);
  return frames.map(({ predicate, arguments: given }) => {
    const spans = given.flatMap(({ role, spans }) =>
      spans.map(([start, end]) => ({ start, end, name: role })),
    );
    if (!spans.some(({ start, end }) => start <= predicate && predicate < end))
      spans.push({ start: predicate, end: predicate + 1, name: "V" });
    const first = Math.min(...spans.map(({ start }) => start));
    const last = Math.max(...spans.map(({ end }) => end));
    return markSpans(text, offsets, spans, names, offsets[first][0], offsets[last - 1][1]);
  });
}

function showClusters(text, { offsets, clusters }) {
  const spans = clusters.flatMap((mentions, k) =>
    mentions.map(({ start, end }) => ({ start, end, name: String(k + 1) })),
  );
  if (spans.length === 0) return [nothing("No two mentions of the same entity found.")];
  return [markSpans(text, offsets, spans, namesOf(spans.map(({ name }) => name)))];
}

function showAnswer(text, { answer: found, start, end }) {
  const letters = [...text];
  const parts = [letters.slice(0, start), letters.slice(start, end), letters.slice(end)];
  const [before, inside, after] = parts.map((part) => part.join(""));
  const context = element("p", { dir: "auto" }, before, element("mark", {}, inside), after);
  return [answer(found), context];
}

// The distinct names, in the order of their colors.
const namesOf = (names) => [...new Set(names)].sort();

// The original text from one character to another, with each span of tokens in a box. Spans may be
// nested; one that crosses another is left out.
export function markSpans(text, offsets, spans, names, from = 0, to = Infinity) {
  const letters = [...text]; // offsets count characters, not JavaScript's code units
  const root = { end: Math.min(to, letters.length), shown: from, made: element("p", { dir: "auto" }) };
  const open = [root];
  const write = (box, until) => {
    box.made.append(letters.slice(box.shown, until).join(""));
    box.shown = until;
  };
  const close = () => {
    const box = open.pop();
    write(box, box.end);
    box.made.append(element("span", { class: "label" }, box.name));
    open.at(-1).shown = box.end;
  };
  const ordered = spans
    .map(({ start, end, name }) => ({ start: offsets[start][0], end: offsets[end - 1][1], name }))
    .sort((one, two) => one.start - two.start || two.end - one.end);
  for (const { start, end, name } of ordered) {
    while (open.length > 1 && open.at(-1).end <= start) close();
    if (end > open.at(-1).end) continue;
    write(open.at(-1), start);
    const color = names.indexOf(name) % N_COLORS;
    const made = element("span", { class: "labeled", dataset: { color } });
    open.at(-1).made.append(made);
    open.push({ end, shown: start, made, name });
  }
  while (open.length > 1) close();
  write(root, root.end);
  return root.made;
}
