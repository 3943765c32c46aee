// The words as points: the first two principal components of their vectors.

import { byId, element, svg } from "./dom.js";
import { mix, principal, settle } from "./vectors.js";

const MARGIN = 36;
const N_COLORS = 8;
const MOST_POINTS = 400;
let before = []; // earlier positions of the points
let drawn = { key: "", groups: [] };

// `view`: { embedded, sentences, weights, gamma, word, color: "sentence" or "word", only }
export function showMap(view, choose) {
  const words = pointsOf(view).slice(0, MOST_POINTS);
  const vectors = words.map(({ row }) => mix(view.embedded, row, view.weights, view.gamma));
  const { points, share } = principal(vectors);
  before = settle(points, before);
  const frame = frameOf(byId("map"));
  const places = scale(before, frame);
  const colors = colorNumbers(words, view);
  const labeled = placeLabels(words, places);
  draw(words, choose).forEach((group, k) => {
    const [x, y] = places[k];
    group.style.transform = `translate(${x}px, ${y}px)`;
    group.dataset.color = colors[k] ?? "none";
    group.classList.toggle("labeled", labeled.has(k));
    group.classList.toggle("turned", x > frame.width - 90);
  });
  byId("map-note").textContent =
    `${words.length} words. PCA; the plane shows ` +
    `${Math.round(100 * (share[0] + share[1]))} % of the variance.`;
}

function pointsOf({ sentences, word, only }) {
  let row = 0;
  const all = sentences.flatMap((tokens, sentence) =>
    tokens.map((token, position) => ({
      token,
      sentence,
      position,
      row: row++,
      isCompared: token.toLowerCase() === word,
    })),
  );
  return only ? all.filter((one) => one.isCompared) : all.filter(({ token }) => /\w/u.test(token));
}

// One unit per pixel, so that labels have the same size on every screen.
function frameOf(picture) {
  const width = Math.max(280, Math.round(picture.getBoundingClientRect().width));
  const height = Math.round(Math.max(300, width * 0.5));
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return { width, height };
}

function scale(points, { width, height }) {
  const [x, y] = [0, 1].map((d) => extent(points.map((point) => point[d])));
  // One scale for both axes, so that distances can be compared; leave space for the labels.
  const unit = Math.min(
    (width - 2 * MARGIN - 40) / Math.max(1e-9, x.length),
    (height - 2 * MARGIN) / Math.max(1e-9, y.length),
  );
  return points.map((point) => [
    width / 2 - 20 + (point[0] - x.middle) * unit,
    height / 2 - (point[1] - y.middle) * unit,
  ]);
}

function extent(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return { middle: (low + high) / 2, length: high - low };
}

// One color per sentence, or per word that occurs more than once.
function colorNumbers(words, { color }) {
  if (color === "sentence") return words.map(({ sentence }) => sentence % N_COLORS);
  const counts = new Map();
  for (const { token } of words) {
    const word = token.toLowerCase();
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const repeated = [...counts].filter(([, count]) => count > 1).map(([word]) => word);
  return words.map(({ token }) => {
    const number = repeated.indexOf(token.toLowerCase());
    return number < 0 ? null : number % N_COLORS;
  });
}

// Which words have room for their label, the compared word first.
function placeLabels(words, places) {
  const taken = words.flatMap(({ isCompared }, k) =>
    isCompared ? [{ x: places[k][0] - 7, y: places[k][1] - 7, width: 14, height: 14 }] : [],
  );
  const shown = new Set();
  const order = words.map((_, k) => k).sort((a, b) => words[b].isCompared - words[a].isCompared);
  for (const k of order) {
    const width = 8 * labelOf(words[k]).length + 12;
    const box = { x: places[k][0] + 9, y: places[k][1] - 9, width, height: 18 };
    const isFree = taken.every(
      (other) =>
        box.x + box.width < other.x ||
        other.x + other.width < box.x ||
        box.y + box.height < other.y ||
        other.y + other.height < box.y,
    );
    if (isFree) shown.add(k);
    if (isFree) taken.push(box);
  }
  return shown;
}

function labelOf({ token, sentence, isCompared }) {
  return isCompared ? `${token} ${sentence + 1}` : token;
}

// A group for each word; those that are there stay, so that they can be seen to move.
function draw(words, choose) {
  const key = JSON.stringify(words);
  if (key !== drawn.key) {
    drawn = { key, groups: words.map((word) => drawPoint(word, choose)) };
    const onTop = drawn.groups.filter((_, k) => words[k].isCompared);
    byId("map").replaceChildren(...drawn.groups, ...onTop);
  }
  return drawn.groups;
}

function drawPoint(word, choose) {
  return svg(
    "g",
    {
      class: word.isCompared ? "point compared" : "point",
      onclick: () => choose({ sentence: word.sentence, position: word.position }),
    },
    svg("title", {}, `${word.token}, sentence ${word.sentence + 1}`),
    svg("circle", { r: word.isCompared ? 7 : 4 }),
    svg("text", { x: 11, y: 4 }, labelOf(word)),
  );
}

export function showMapKey(sentences, color) {
  const items = sentences.slice(0, N_COLORS).map((_, s) =>
    element(
      "li",
      {},
      element("span", { class: "swatch", dataset: { color: s } }),
      `sentence ${s + 1}`,
    ),
  );
  byId("map-key").replaceChildren(...(color === "sentence" ? items : []));
}
