// Similarity of every pair of occurrences of a word: a small matrix per layer, a large one for
// the chosen weights.

import { byId, element, marked, svg } from "./dom.js";
import { compare, cosine, distance, mix } from "./vectors.js";

const isNarrow = matchMedia("(max-width: 34rem)");
const LAYER_NAMES = ["without context", "LSTM layer 1", "LSTM layer 2"];
const MAX_NUMBERS = 16; // a larger table has small cells, with their numbers in tooltips
const MAX_OCCURRENCES = 80;
const SHADES = 32; // of a picture

// `view`: { embedded, rows: token numbers, places, sentences, weights, gamma, measure, onlyLayer }
export function showHeatmap({ rows, places, ...rest }, chooseLayer) {
  const view = {
    ...rest,
    rows: rows.slice(0, MAX_OCCURRENCES),
    places: places.slice(0, MAX_OCCURRENCES),
  };
  const layers = Array.from({ length: view.embedded.layers }, (_, layer) => oneHot(layer, view));
  const squares = layers.map((weights) => squareOf(view, weights, 1));
  const square = squareOf(view, view.weights, view.gamma);
  const heat = heatScale(view.measure, [...squares, square]);
  byId("layers").replaceChildren(
    ...squares.map((values, layer) => thumbnail(values, layer, view, heat, chooseLayer)),
  );
  showTable(square, view, heat);
  showOccurrences(view, places.length);
  showScale(heat, view.measure);
}

function oneHot(layer, view) {
  return Array.from({ length: view.embedded.layers }, (_, k) => Number(k === layer));
}

function squareOf({ embedded, rows, measure }, weights, gamma) {
  const vectors = rows.map((row) => mix(embedded, row, weights, gamma));
  return compare(vectors, measure === "cosine" ? cosine : distance);
}

// Map values to 0..1, where 1 is most similar, on one scale for all layers.
function heatScale(measure, squares) {
  const values = squares.flat(2);
  if (measure === "cosine") {
    const low = Math.min(0.9, ...values);
    return { cold: low, hot: 1, of: (value) => (value - low) / (1 - low) };
  }
  const high = Math.max(1e-9, ...values);
  return { cold: high, hot: 0, of: (value) => 1 - value / high };
}

// One path for all cells of a shade: a picture of 60 occurrences has 3,600 cells.
function pictureOf(values, heat) {
  const paths = Array.from({ length: SHADES + 1 }, () => "");
  values.forEach((row, i) =>
    row.forEach((value, j) => {
      paths[Math.round(clamp(heat.of(value)) * SHADES)] += `M${j} ${i}h1v1h-1z`;
    }),
  );
  const shades = paths.map((path, shade) => {
    if (!path) return null;
    const cells = svg("path", { d: path, class: "cell" });
    cells.style.setProperty("--heat", shade / SHADES);
    return cells;
  });
  const n = values.length;
  const shape = { viewBox: `0 0 ${n} ${n}`, "shape-rendering": "crispEdges", "aria-hidden": "true" };
  return svg("svg", shape, ...shades);
}

function thumbnail(values, layer, view, heat, chooseLayer) {
  const name = layer < LAYER_NAMES.length ? LAYER_NAMES[layer] : `LSTM layer ${layer}`;
  const apart = meanOfPairs(values);
  return element(
    "button",
    {
      type: "button",
      class: "layer",
      "aria-pressed": String(view.onlyLayer === layer),
      onclick: () => chooseLayer(layer),
    },
    pictureOf(values, heat),
    element("span", { class: "layer-name" }, `Layer ${layer}`),
    element("span", { class: "layer-note" }, name),
    element("span", { class: "layer-mean" }, `mean ${apart.toFixed(2)}`),
  );
}

function meanOfPairs(values) {
  const pairs = values.flatMap((row, i) => row.filter((_, j) => j > i));
  return pairs.reduce((sum, value) => sum + value, 0) / Math.max(1, pairs.length);
}

function showTable(square, view, heat) {
  const head = element(
    "tr",
    {},
    element("td", {}),
    ...view.places.map((_, k) => element("th", { scope: "col" }, String(k + 1))),
  );
  const body = square.map((row, i) =>
    element(
      "tr",
      {},
      element(
        "th",
        { scope: "row" },
        element("span", { class: "number" }, String(i + 1)),
        isNarrow.matches ? null : contextOf(view, i, 3),
      ),
      ...row.map((value, j) => tableCell(value, i, j, heat)),
    ),
  );
  const caption = element(
    "caption",
    { class: "visually-hidden" },
    `Every pair of occurrences of ${view.word} by ${view.measure}`,
  );
  byId("heatmap").classList.toggle("compact", square.length > MAX_NUMBERS);
  byId("heatmap").replaceChildren(
    caption,
    element("thead", {}, head),
    element("tbody", {}, ...body),
  );
}

function contextOf({ places, sentences }, i, around) {
  const { sentence, position } = places[i];
  const context = marked(sentences[sentence], position, around);
  return element("bdi", { class: "context", dir: "auto" }, ...context);
}

// On a phone the table has no space for the contexts: they are a numbered list above it.
function showOccurrences(view, total) {
  const isCut = total > view.places.length;
  byId("occurrences").hidden = !isNarrow.matches;
  byId("occurrences").replaceChildren(
    ...view.places.map((_, i) => element("li", {}, contextOf(view, i, 5))),
  );
  byId("not-compared").hidden = !isCut;
  byId("not-compared").textContent = `The first ${view.places.length} of ${total} occurrences.`;
}

function tableCell(value, i, j, heat) {
  const shown = Math.abs(value) < 10 ? value.toFixed(2) : value.toFixed(1);
  const title = `${i + 1} and ${j + 1}: ${shown}`;
  const number = element("span", {}, shown);
  const cell = element("td", { class: i === j ? "same" : "cell", title }, number);
  cell.style.setProperty("--heat", clamp(heat.of(value)));
  return cell;
}

function showScale(heat, measure) {
  const shown = (value) => (measure === "cosine" ? value.toFixed(2) : value.toFixed(1));
  byId("scale-cold").textContent = `${shown(heat.cold)} different`;
  byId("scale-hot").textContent = `similar ${shown(heat.hot)}`;
}

const clamp = (value) => Math.max(0, Math.min(1, value));
