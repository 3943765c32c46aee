// The page: reads the input, asks the server, shows the results, and keeps its state in the URL.

import * as api from "./api.js";
import { showCalls } from "./call.js";
import { makeSliders, onChoices, showChoices } from "./controls.js";
import { byId, element } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { showHeatmap } from "./heatmap.js";
import { showMap, showMapKey } from "./map.js";
import { repeatedWords, showSentences } from "./sentences.js";
import { addressOf, readAddress } from "./state.js";
import { setUpTagger } from "./tagger.js";
import { showWord } from "./word.js";

let state = readAddress(location.hash, EXAMPLES.bow);
let info = null;
let found = null; // results for the sentences: { embedded, scores, sentences, ... }

async function start() {
  try {
    info = await api.info();
  } catch (error) {
    if (error.status === 401) return byId("token-dialog").showModal();
    return tell(error.message);
  }
  state.weights ??= oneHot(info.layers - 1);
  if (state.weights.length !== info.layers) state.weights = oneHot(info.layers - 1);
  byId("model").textContent = describeModel(info);
  byId("indexed").textContent = info.indexed_tokens?.toLocaleString("en") ?? "";
  byId("text").value = state.text;
  setUpTagger(info.tasks, tell);
  makeSliders(state.weights.length, (weight, value) => {
    if (weight === "gamma") state.gamma = Math.max(0.01, value);
    else state.weights[weight] = value;
    showVectors();
    askLater();
  });
  await read();
}

// Get the results for the sentences, then show everything.
async function read() {
  const texts = state.text.split("\n").map((line) => line.trim()).filter(Boolean);
  if (texts.length === 0) return tell("Type one sentence per line.");
  tell("", true);
  try {
    const [embedded, scored] = await Promise.all([
      api.embed(texts),
      info.words ? api.score(texts) : null,
    ]);
    found = arrange(texts, embedded, scored);
  } catch (error) {
    return tell(error.message);
  }
  tell("");
  show();
}

// The sentences of all texts in one list, with the origin of each.
function arrange(texts, embedded, scored) {
  const sentences = [];
  const origins = [];
  embedded.texts.forEach(({ tokens, sentences: spans }, text) =>
    spans.forEach(([first, end]) => {
      sentences.push(tokens.slice(first, end));
      origins.push({ text, first });
    }),
  );
  const scores = scored?.texts.flatMap((text) => text.sentences);
  return { texts, embedded, sentences, origins, scores, words: repeatedWords(sentences) };
}

function show() {
  const { words, sentences } = found;
  if (!words.has(state.word)) state.word = defaultWord(words);
  const { sentence, position } = state.chosen ?? {};
  if (!sentences[sentence]?.[position]) state.chosen = words.get(state.word)?.[0] ?? null;
  showWordChoice(words);
  showVectors();
  showChosen();
}

// The word to compare first: one of the examples, or the longest word that occurs again.
function defaultWord(words) {
  const names = [...words.keys()];
  const longest = names.toSorted((a, b) => b.length - a.length)[0];
  return names.find((name) => Object.hasOwn(EXAMPLES, name)) ?? longest ?? null;
}

// Show what depends on the layer weights; needs no request.
function showVectors() {
  const places = found.words.get(state.word) ?? [];
  const starts = [];
  found.sentences.reduce((sum, tokens) => (starts.push(sum), sum + tokens.length), 0);
  const rows = places.map(({ sentence, position }) => starts[sentence] + position);
  const view = { ...found, ...state, places, rows, weights: normalized(), info };
  byId("compare").hidden = places.length < 2;
  byId("nothing-to-compare").hidden = places.length >= 2;
  if (places.length > 1) {
    const onlyLayer = view.weights.findIndex((weight) => weight === 1);
    showHeatmap({ ...view, onlyLayer }, chooseLayer);
  }
  showMap(view, choose);
  showMapKey(found.sentences, state.color);
  showChoices(state, view.weights);
  showCalls({ ...view, address: location.origin, hasToken: api.hasToken() });
  history.replaceState(null, "", addressOf(state));
}

function showChosen() {
  showSentences(found.sentences, found.scores, state.chosen, state.word, choose);
  byId("word").hidden = !state.chosen;
  if (!state.chosen) return;
  const { sentence, position } = state.chosen;
  showWord({
    tokens: found.sentences[sentence],
    position,
    score: found.scores?.[sentence],
    weights: normalized(),
    info,
    anyWord: state.anyWord,
  }).catch((error) => tell(error.message));
}

function choose(place) {
  state.chosen = place;
  const word = found.sentences[place.sentence][place.position].toLowerCase();
  if (found.words.has(word)) state.word = word;
  showWordChoice(found.words);
  showVectors();
  showChosen();
  const { sentence, position } = place;
  document.querySelector(`[data-sentence="${sentence}"][data-position="${position}"]`)?.focus();
}

function chooseLayer(layer) {
  state.weights = oneHot(layer);
  showVectors();
  askLater();
  byId("layers").children[layer].focus();
}

const oneHot = (layer) => Array.from({ length: info.layers }, (_, k) => Number(k === layer));

// The weights, normalized to sum to one; equal weights if all are zero.
function normalized() {
  const sum = state.weights.reduce((a, b) => a + b, 0);
  return state.weights.map((weight) => (sum > 0 ? weight / sum : 1 / state.weights.length));
}

function showWordChoice(words) {
  const items = [...words].map(([word, places]) =>
    element("option", { value: word, selected: word === state.word }, `${word} (${places.length})`),
  );
  byId("compared-word").replaceChildren(...items);
}

function describeModel({ model, layers, output_dim, words }) {
  const facts = [model, `${layers} layers of ${output_dim}`];
  if (words) facts.push(`${words.toLocaleString("en")} words`);
  return facts.join(" · ");
}

function tell(message, isBusy = false) {
  byId("message").textContent = message;
  document.body.toggleAttribute("data-busy", isBusy);
}

// Neighbors depend on the layer weights; wait until a slider stops moving.
let waiting;
function askLater() {
  clearTimeout(waiting);
  waiting = setTimeout(showChosen, 250);
}

let typing;
byId("text").addEventListener("input", () => {
  clearTimeout(typing);
  state.text = byId("text").value;
  state.chosen = null;
  typing = setTimeout(read, 400);
});
byId("examples").append(
  ...Object.entries(EXAMPLES).map(([word, sentences]) =>
    element("button", {
      type: "button",
      onclick: () => {
        Object.assign(state, { text: sentences.join("\n"), word, chosen: null });
        byId("text").value = state.text;
        read();
      },
    }, word),
  ),
);
byId("compared-word").addEventListener("change", (event) => {
  state.word = event.target.value;
  state.chosen = found.words.get(state.word)[0];
  showVectors();
  showChosen();
});
onChoices((name, value) => {
  state[name] = value;
  if (name === "anyWord") showChosen();
  else showVectors();
});
window.addEventListener("resize", () => found && showVectors());
for (const button of document.querySelectorAll("[data-copy]"))
  button.addEventListener("click", async () => {
    const source = button.dataset.copy;
    await navigator.clipboard.writeText(source === "link" ? location.href : byId(source).textContent);
    const name = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = name), 1500);
  });
byId("token-form").addEventListener("submit", () => {
  api.useToken(byId("token").value.trim());
  start();
});
window.addEventListener("hashchange", () => {
  state = { ...readAddress(location.hash, EXAMPLES.bow) };
  state.weights ??= oneHot(info.layers - 1);
  byId("text").value = state.text;
  read();
});
start();
