// Similarity of every pair of occurrences of a word: a small matrix per layer, a large one for
// the chosen weights.

import { byId, element, marked, svg } from "./dom.js";
import { compare, cosine, distance, mix } from "./vectors.js";

const isNarrow = matchMedia("(max-width: 34rem)");
const LAYER_NAMES = ["characters only", "LSTM layer 1", "LSTM layer 2"];

// `view`: { embedded, rows: token numbers, places, sentences, weights, gamma, measure, onlyLayer }
export function showHeatmap(view, chooseLayer) {
  const layers = Array.from({ length: view.embedded.layers }, (_, layer) => oneHot(layer, view));
  const squares = layers.map((weights) => squareOf(view, weights, 1));
  const square = squareOf(view, view.weights, view.gamma);
  const heat = heatScale(view.measure, [...squares, square]);
  byId("layers").replaceChildren(
    ...squares.map((values, layer) => thumbnail(values, layer, view, heat, chooseLayer)),
  );
  showTable(square, view, heat);
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

function thumbnail(values, layer, view, heat, chooseLayer) {
  const n = values.length;
  const cells = values.flatMap((row, i) =>
    row.map((value, j) => {
      const cell = svg("rect", { x: j, y: i, width: 1.03, height: 1.03, class: "cell" });
      cell.style.setProperty("--heat", clamp(heat.of(value)));
      return cell;
    }),
  );
  const picture = svg("svg", { viewBox: `0 0 ${n} ${n}`, "shape-rendering": "crispEdges", "aria-hidden": "true" }, ...cells);
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
    picture,
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
  const body = square.map((row, i) => {
    const { sentence, position } = view.places[i];
    const tokens = view.sentences[sentence];
    const [first, last] = isNarrow.matches ? [position - 1, position + 1] : [0, tokens.length];
    const shown = tokens.slice(Math.max(0, first), last);
    const context = marked(shown, position - Math.max(0, first), 3);
    return element(
      "tr",
      {},
      element(
        "th",
        { scope: "row" },
        element("span", { class: "number" }, String(i + 1)),
        element("span", { class: "context" }, ...context),
      ),
      ...row.map((value, j) => tableCell(value, i === j, heat)),
    );
  });
  const caption = element(
    "caption",
    { class: "visually-hidden" },
    `Every pair of occurrences of ${view.word} by ${view.measure}`,
  );
  byId("heatmap").replaceChildren(
    caption,
    element("thead", {}, head),
    element("tbody", {}, ...body),
  );
}

function tableCell(value, isSame, heat) {
  const amount = clamp(heat.of(value));
  const shown = Math.abs(value) < 10 ? value.toFixed(2) : value.toFixed(1);
  const cell = element("td", { class: isSame ? "same" : "cell" }, shown);
  cell.style.setProperty("--heat", amount);
  return cell;
}

function showScale(heat, measure) {
  const shown = (value) => (measure === "cosine" ? value.toFixed(2) : value.toFixed(1));
  byId("scale-cold").textContent = `${shown(heat.cold)} different`;
  byId("scale-hot").textContent = `similar ${shown(heat.hot)}`;
}

const clamp = (value) => Math.max(0, Math.min(1, value));
