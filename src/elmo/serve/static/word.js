// Details of the selected word: surprisal, substitutes, and its neighbors with and without context.

import * as api from "./api.js";
import { byId, element, marked } from "./dom.js";

const MANY = 8;
const AROUND = 12;
let asked = 0; // late responses are ignored

export function showWord(view) {
  const { tokens, position, score, weights, info, anyWord } = view;
  byId("word-sentence").replaceChildren(...marked(tokens, position));
  showSurprisal(score, position);
  byId("substitutes-part").hidden = !info.words;
  byId("neighbors-part").hidden = byId("static-part").hidden = !info.indexed_tokens;
  byId("no-index").hidden = Boolean(info.indexed_tokens);
  const number = ++asked;
  const isLate = () => number !== asked;
  if (info.words)
    fill(["substitutes"], api.substitutes(tokens, position, MANY), showSubstitutes, isLate);
  if (info.indexed_tokens)
    fill(
      ["neighbors", "static"],
      api.neighbors(tokens, position, weights, anyWord, MANY),
      (answer) => showNeighbors(answer, tokens[position]),
      isLate,
    );
}

// Show an answer in the parts of these names, which are dimmed until it is there; or the error.
async function fill(names, answer, show, isLate) {
  const parts = names.map((name) => byId(`${name}-part`));
  for (const part of parts) part.ariaBusy = "true";
  let message = "";
  try {
    const found = await answer;
    if (isLate()) return;
    show(found);
  } catch (error) {
    if (isLate()) return;
    message = error.message;
    for (const name of names) byId(name).replaceChildren();
  }
  byId(`${names[0]}-error`).textContent = message;
  for (const part of parts) part.ariaBusy = "false";
}

function showSurprisal(score, position) {
  const given = { forward: "before", backward: "after", combined: "before and after" };
  const facts = Object.entries(score?.surprisals ?? {}).flatMap(([reading, bits]) => [
    element("dt", { class: reading }, `given the words ${given[reading]}`),
    element("dd", {}, `${bits[position].toFixed(1)} bits`),
  ]);
  byId("word-surprisal").replaceChildren(...facts);
  byId("word-unknown").hidden = score?.is_known[position] ?? true;
}

// Bars and numbers relative to the best word; a score is the logarithm of how well a word fits.
function showSubstitutes({ substitutes }) {
  byId("substitutes").replaceChildren(
    ...substitutes.map(({ word, score }, k) => {
      const share = Math.exp(score - substitutes[0].score);
      const bar = element("span", { class: "share" });
      bar.style.setProperty("--share", share);
      return element(
        "li",
        {},
        element("span", { class: "rank" }, String(k + 1)),
        element("bdi", { class: "subject" }, word),
        bar,
        element("span", { class: "value" }, share.toFixed(2)),
      );
    }),
  );
}

function showNeighbors({ in_context, without_context }, word) {
  byId("neighbors").replaceChildren(
    ...in_context.map(({ tokens, position, similarity }) =>
      element(
        "li",
        {},
        element("span", { class: "subject sentence", dir: "auto" }, ...marked(tokens, position, AROUND)),
        element("span", { class: "value" }, similarity.toFixed(2)),
      ),
    ),
  );
  byId("no-neighbors").hidden = in_context.length > 0;
  byId("no-neighbors").textContent = `No other occurrence of “${word}” in the indexed text.`;
  byId("static").replaceChildren(
    ...without_context.map(({ word: other, similarity }) =>
      element(
        "li",
        {},
        element("span", { class: "subject" }, other),
        element("span", { class: "value" }, similarity.toFixed(2)),
      ),
    ),
  );
}
