// Labels for a text, by a task model.

import * as api from "./api.js";
import { byId, element } from "./dom.js";

export function setUpTagger(tasks) {
  byId("tagger").hidden = tasks.length === 0;
  byId("task").replaceChildren(...tasks.map((task) => element("option", { value: task }, task)));
  byId("tag").onclick = async () => {
    const text = byId("tagger-text").value;
    let message = "";
    byId("tagged").ariaBusy = "true";
    try {
      const { texts } = await api.predict(byId("task").value, [text]);
      showLabels(text, texts[0]);
    } catch (error) {
      message = error.message;
    }
    byId("tagger-error").textContent = message;
    byId("tagged").ariaBusy = "false";
  };
}

// The original text, with each labeled span in a box.
function showLabels(text, { offsets, labels }) {
  const letters = [...text]; // offsets count characters, not JavaScript's code units
  const kinds = [...new Set(labels.map(kindOf).filter(Boolean))].sort();
  const parts = [];
  let shown = 0;
  runs(labels).forEach(({ first, last, kind }) => {
    const [start, end] = [offsets[first][0], offsets[last][1]];
    parts.push(letters.slice(shown, start).join(""));
    parts.push(
      element(
        "span",
        { class: "labeled", dataset: { color: kinds.indexOf(kind) % 8 } },
        letters.slice(start, end).join(""),
        element("span", { class: "label" }, kind),
      ),
    );
    shown = end;
  });
  parts.push(letters.slice(shown).join(""));
  byId("tagged").replaceChildren(...parts);
}

// Spans of BIO or BILOU labels; a label without prefix is a span of its own.
function runs(labels) {
  const found = [];
  labels.forEach((label, k) => {
    const kind = kindOf(label);
    const last = found.at(-1);
    if (!kind) return;
    if (/^[IEL]-/.test(label) && last?.last === k - 1 && last.kind === kind) last.last = k;
    else found.push({ first: k, last: k, kind });
  });
  return found;
}

const kindOf = (label) => (label === "O" ? "" : label.replace(/^[BIESLU]-/, ""));
