// Python code and curl commands that compute what is on the screen.

import { byId } from "./dom.js";

// `view`: { texts, sentences, origins, places, weights, gamma, measure, word, chosen, info, ... }
// where `origins[s]` is the text of sentence s and the index of its first token
export function showCalls(view) {
  byId("call-python").textContent = python(view);
  byId("call-curl").textContent = curl(view);
}

function python(view) {
  const { texts, sentences, origins, places, weights, gamma, measure, word, chosen, info } = view;
  const layers = `[${weights.map(number).join(", ")}]`;
  const scaled = gamma === 1 ? "" : `${number(gamma)} * `;
  // Texts without white space could be tokens: Elmo.embed needs the keyword.
  const isWords = texts.length > 1 && !texts.some((text) => /\s/.test(text));
  const given = isWords ? "texts, single_words=True" : "texts";
  const lines = [
    "import numpy as np",
    "from elmo import Elmo",
    "",
    `elmo = Elmo.load(${quote(info.model)})`,
    "texts = [",
    ...texts.map((text) => `    ${quote(text)},`),
    "]",
    `vectors = [${scaled}text.vectors(${layers}) for text in elmo.embed(${given})]`,
  ];
  if (places.length > 1) {
    const rows = places.map(({ sentence, position }) => {
      const { text, first } = origins[sentence];
      return `vectors[${text}][${first + position}]`;
    });
    lines.push("", `# every pair of ${quote(word)}`, `words = np.stack([${rows.join(", ")}])`);
    lines.push(
      ...(measure === "cosine"
        ? [
            "words /= np.linalg.norm(words, axis=1, keepdims=True)",
            "print((words @ words.T).round(2))",
          ]
        : ["print(np.linalg.norm(words[:, None] - words, axis=-1).round(2))"]),
    );
  }
  if (info.words) {
    lines.push("", "# surprisal of each word in bits");
    lines.push(`for text in elmo.score(${given}):`, "    for s in text.sentences:");
    lines.push('        print(s.tokens, s.surprisal("forward"), s.surprisal("backward"))');
  }
  if (chosen && info.words) {
    const words = `[${sentences[chosen.sentence].map(quote).join(", ")}]`;
    lines.push("", `print(elmo.substitutes(${words}, ${chosen.position}, k=8))`);
  }
  return lines.join("\n");
}

function curl({ texts, sentences, weights, chosen, info, address, hasToken }) {
  const layers = weights.map((weight) => Number(number(weight)));
  const calls = [["embed", { texts, layers }]];
  if (info.words) calls.push(["score", { texts }]);
  if (chosen) {
    const place = { sentence: sentences[chosen.sentence], position: chosen.position, k: 8 };
    if (info.words) calls.push(["substitutes", place]);
    if (info.indexed_tokens) calls.push(["neighbors", { ...place, layers }]);
  }
  const token = hasToken ? " \\\n  -H \"Authorization: Bearer $TOKEN\"" : "";
  return calls
    .map(
      ([path, body]) =>
        `curl ${address}/api/${path} -H 'Content-Type: application/json'${token} \\\n` +
        `  -d ${shellQuote(JSON.stringify(body))}`,
    )
    .join("\n\n");
}

const number = (value) => String(Number(value.toFixed(3)));
// Every JSON string is a Python string, too.
const quote = (text) => JSON.stringify(text);
const shellQuote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
