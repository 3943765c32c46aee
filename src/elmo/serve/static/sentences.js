// The sentences as one button per word, with bars for its surprisal in both directions.

import { byId, element, hidden } from "./dom.js";

const MOST_BITS = 20; // length of the longest bar

// `scores[s]` are the surprisals of sentence s; optional.
export function showSentences(sentences, scores, chosen, word, choose) {
  byId("sentences").replaceChildren(
    ...sentences.map((tokens, s) =>
      element(
        "li",
        { dir: "auto" },
        scores ? axis() : null,
        ...tokens.map((token, t) => wordButton({ s, t, token }, scores?.[s], chosen, word, choose)),
      ),
    ),
  );
  byId("surprisal-legend").hidden = !scores;
}

function axis() {
  const ticks = [0, MOST_BITS / 2, MOST_BITS].map((bits) => element("span", {}, String(bits)));
  return element("span", { class: "axis", "aria-hidden": "true" }, ...ticks);
}

function wordButton({ s, t, token }, score, chosen, word, choose) {
  const isChosen = chosen?.sentence === s && chosen.position === t;
  const button = element(
    "button",
    {
      type: "button",
      class: token.toLowerCase() === word ? "word compared" : "word",
      "aria-pressed": String(isChosen),
      dataset: { sentence: s, position: t },
      onclick: () => choose({ sentence: s, position: t }),
    },
    element("span", { class: "token" }, token),
  );
  if (score) button.append(...bars(score, t));
  return button;
}

function bars(score, t) {
  const { forward, backward } = score.surprisals;
  const parts = [
    ["forward", forward?.[t], "given the words before"],
    ["backward", backward?.[t], "given the words after"],
  ].filter(([, bits]) => bits !== undefined);
  const columns = parts.map(([direction, bits]) => {
    const bar = element("span", { class: `bar ${direction}` });
    bar.style.setProperty("--bits", Math.min(1, bits / MOST_BITS));
    return bar;
  });
  const told = parts.map(([, bits, given]) => `${bits.toFixed(1)} bits ${given}`).join(", ");
  const unknown = score.is_known[t] ? "" : ", not in the vocabulary";
  const numbers = parts.map(([direction, bits]) =>
    element("span", { class: `number-of ${direction}` }, bits.toFixed(0)),
  );
  return [
    element(
      "span",
      { class: score.is_known[t] ? "bars" : "bars unknown", title: told + unknown },
      ...columns,
      hidden(`, ${told}${unknown}`),
    ),
    element("span", { class: "bits", "aria-hidden": "true" }, ...numbers),
  ];
}

// Words that occur more than once, most frequent first, each with its positions.
export function repeatedWords(sentences) {
  const places = new Map();
  sentences.forEach((tokens, sentence) =>
    tokens.forEach((token, position) => {
      const word = token.toLowerCase();
      if (!/\p{L}/u.test(word)) return;
      places.set(word, [...(places.get(word) ?? []), { sentence, position }]);
    }),
  );
  return new Map(
    [...places].filter(([, found]) => found.length > 1).sort((a, b) => b[1].length - a[1].length),
  );
}
