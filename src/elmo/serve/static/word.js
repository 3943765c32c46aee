// Details of the selected word: surprisal, substitutes, and its neighbors with and without context.

import * as api from "./api.js";
import { byId, element, marked } from "./dom.js";

const MANY = 8;
const AROUND = 12;
let asked = 0; // late responses are ignored

export async function showWord(view) {
  const { tokens, position, score, weights, info, anyWord } = view;
  const number = ++asked;
  byId("word-sentence").replaceChildren(...marked(tokens, position));
  byId("word").hidden = false;
  showSurprise(score, position);
  byId("substitutes-part").hidden = !info.words;
  byId("neighbors-part").hidden = byId("static-part").hidden = !info.indexed_tokens;
  byId("no-index").hidden = Boolean(info.indexed_tokens);
  const unlessLate = (show) => (answer) => number === asked && show(answer);
  await Promise.all([
    info.words && api.substitutes(tokens, position, MANY).then(unlessLate(showSubstitutes)),
    info.indexed_tokens &&
      api
        .neighbors(tokens, position, weights, anyWord, MANY)
        .then(unlessLate((answer) => showNeighbors(answer, tokens[position]))),
  ]);
}

function showSurprise(score, position) {
  const given = { forward: "before", backward: "after", combined: "before and after" };
  const facts = Object.entries(score?.surprisals ?? {}).flatMap(([reading, bits]) => [
    element("dt", { class: reading }, `given the words ${given[reading]}`),
    element("dd", {}, `${bits[position].toFixed(1)} bits`),
  ]);
  byId("word-surprise").replaceChildren(...facts);
  byId("word-unknown").hidden = score?.is_known[position] ?? true;
}

function showSubstitutes({ substitutes }) {
  byId("substitutes").replaceChildren(
    ...substitutes.map(({ word, log_probs }) => {
      const percent = 100 * Math.exp(log_probs.combined);
      const row = element(
        "li",
        {},
        element("span", { class: "subject" }, word),
        element("span", { class: "value" }, `${percent < 0.1 ? "<0.1" : percent.toFixed(1)} %`),
      );
      row.style.setProperty("--share", percent / 100);
      return row;
    }),
  );
}

function showNeighbors({ in_context, without_context }, word) {
  byId("neighbors").replaceChildren(
    ...in_context.map(({ tokens, position, similarity }) =>
      element(
        "li",
        {},
        element("span", { class: "subject sentence" }, ...marked(tokens, position, AROUND)),
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
