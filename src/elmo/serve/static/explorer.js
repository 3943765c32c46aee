// The page: reads the input, asks the server, shows the results, and keeps its state in the URL.

import * as api from "./api.js";
import { showCalls } from "./call.js";
import { makeSliders, onChoices, showChoices } from "./controls.js";
import { byId, element } from "./dom.js";
import { EXAMPLES, textOf } from "./examples.js";
import { showHeatmap } from "./heatmap.js";
import { showMap } from "./map.js";
import { repeatedWords, showSentences } from "./sentences.js";
import { dropPending, readAddress, record, recordLater, recordPending } from "./state.js";
import { setUpTasks } from "./tasks.js";
import { showWord } from "./word.js";

const START = textOf(EXAMPLES.bow);
let state = readAddress(location.hash, START);
let info = null;
let found = null; // results for the sentences: { text, embedded, scores, sentences, ... }
let reading = null; // the AbortController of the requests for the sentences
let typing; // the timer until typed text is read

async function start() {
  setStatus("loading", "Loading…");
  try {
    info = await api.info();
  } catch (error) {
    setStatus("failed", error.message);
    if (error.status === 401) {
      byId("token-error").textContent = "";
      byId("token-dialog").showModal();
    }
    return;
  }
  byId("model").textContent = describeModel(info);
  byId("indexed").textContent = info.indexed_tokens?.toLocaleString("en") ?? "";
  setUpTasks(info.tasks);
  makeSliders(info.layers, (weight, value) => {
    if (weight === "gamma") state.gamma = Math.max(0.01, value);
    else state.weights[weight] = value;
    drawLater();
    recordLater(state, "slider");
    askLater();
  });
  await showState();
}

// Take the state that the URL has.
async function restore() {
  state = readAddress(location.hash, START);
  byId("text").value = state.text;
  if (info) await showState();
}

// Show the state, whatever the page was about to show or to record.
async function showState() {
  clearTimeout(typing);
  reading?.abort();
  dropPending();
  if (state.weights?.length !== info.layers) state.weights = oneHot(info.layers - 1);
  if (found?.text !== state.text) return read("start");
  setStatus("ready");
  show();
}

// Get the results for the sentences, then show everything. `kind`: see `record`.
async function read(kind) {
  reading?.abort(); // the server drops the work of an aborted request
  reading = new AbortController();
  const { signal } = reading;
  const { text } = state;
  const texts = text.split("\n").map((line) => line.trim()).filter(Boolean);
  if (texts.length === 0) return clear(kind);
  setStatus(found ? "busy" : "loading", "Computing…");
  try {
    const [embedded, scored] = await Promise.all([
      api.embed(texts, signal),
      info.words ? api.score(texts, signal) : null,
    ]);
    if (signal.aborted) return;
    found = { text, ...arrange(texts, embedded, scored) };
  } catch (error) {
    if (!signal.aborted) setStatus("failed", error.message);
    return;
  }
  setStatus("ready");
  show();
  record(state, kind);
}

function clear(kind) {
  found = null;
  setStatus("empty", "Type one sentence per line, or choose an example.");
  record(state, kind);
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
  showChoices(state, view.weights);
  showCalls({ ...view, address: location.origin, hasToken: api.hasToken() });
}

function showChosen() {
  showSentences(found.sentences, found.scores, state.chosen, state.word, chooseInSentence);
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
  });
}

function choose(place) {
  state.chosen = place;
  const word = found.sentences[place.sentence][place.position].toLowerCase();
  if (found.words.has(word)) state.word = word;
  showWordChoice(found.words);
  showVectors();
  showChosen();
  record(state);
}

// The buttons of the words are replaced; the focus stays.
function chooseInSentence(place) {
  choose(place);
  const { sentence, position } = place;
  document.querySelector(`[data-sentence="${sentence}"][data-position="${position}"]`)?.focus();
}

function chooseLayer(layer) {
  state.weights = oneHot(layer);
  showVectors();
  record(state);
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
  const facts = [model, `${layers} layers, ${output_dim} dimensions`];
  if (words) facts.push(`vocabulary of ${words.toLocaleString("en")} words`);
  return facts.join(" · ");
}

// `status`: "loading", "busy" (results of an earlier text are dimmed), "ready", "failed", "empty".
function setStatus(status, message = "") {
  document.body.dataset.status = status;
  byId("message").textContent = message;
  byId("results").hidden = !found;
  byId("results").inert = status !== "ready";
  byId("results").ariaBusy = String(status === "busy");
}

// Neighbors depend on the layer weights; wait until a slider stops moving.
let waiting;
function askLater() {
  clearTimeout(waiting);
  waiting = setTimeout(() => found && showChosen(), 250);
}

// Draw once per frame, however often a slider moves.
let isDrawing = false;
function drawLater() {
  if (isDrawing || !found) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    if (found) showVectors();
  });
}

byId("text").value = state.text;
byId("text").addEventListener("input", () => {
  clearTimeout(typing);
  state.text = byId("text").value;
  state.chosen = null;
  if (!info) return;
  if (!state.text.trim()) return read("typing");
  if (found) setStatus("busy", "Computing…");
  typing = setTimeout(() => read("typing"), 400);
});
byId("examples").append(
  ...Object.entries(EXAMPLES).map(([word, senses]) =>
    element("button", {
      type: "button",
      onclick: () => {
        clearTimeout(typing);
        Object.assign(state, { text: textOf(senses), word, chosen: null });
        byId("text").value = state.text;
        if (info) read();
      },
    }, word),
  ),
);
byId("compared-word").addEventListener("change", (event) => {
  state.word = event.target.value;
  state.chosen = found.words.get(state.word)[0];
  showVectors();
  showChosen();
  record(state);
});
onChoices((name, value) => {
  state[name] = value;
  if (name === "anyWord") showChosen();
  else showVectors();
  record(state);
});
window.addEventListener("resize", drawLater);

// `navigator.clipboard` is absent on pages of another machine without https.
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const focused = document.activeElement;
  const area = element("textarea", { class: "visually-hidden" }, text);
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  focused.focus();
}

for (const button of document.querySelectorAll("[data-copy]")) {
  const name = button.textContent;
  let naming; // the timer until the button has its name again
  button.addEventListener("click", async () => {
    const source = button.dataset.copy;
    recordPending();
    await copy(source === "link" ? location.href : byId(source).textContent);
    button.textContent = "Copied";
    clearTimeout(naming);
    naming = setTimeout(() => (button.textContent = name), 1500);
  });
}
byId("token-form").addEventListener("submit", async (event) => {
  event.preventDefault(); // the dialog is closed when the server has accepted the token
  try {
    await api.useToken(byId("token").value.trim());
  } catch (error) {
    byId("token-error").textContent =
      error.status === 401 ? "The server does not accept this token." : error.message;
    return;
  }
  byId("token-dialog").close();
  start();
});
window.addEventListener("popstate", restore);
start();
