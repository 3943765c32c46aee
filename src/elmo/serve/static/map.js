// The words as points on a plane: the two directions in which their vectors differ most.

import { byId, element, svg } from "./dom.js";
import { mix, principal, settle } from "./vectors.js";

const MARGIN = 36;
const N_COLOURS = 8;
const MOST_POINTS = 400;
let before = []; // where the points were
let drawn = { key: "", groups: [] };

// `view`: { embedded, sentences, weights, gamma, word, colour: "sentence" or "word", only }
export function showMap(view, choose) {
  const words = pointsOf(view).slice(0, MOST_POINTS);
  const vectors = words.map(({ row }) => mix(view.embedded, row, view.weights, view.gamma));
  const { points, share } = principal(vectors);
  before = settle(points, before);
  const frame = frameOf(byId("map"));
  const places = scale(before, frame);
  const colours = colourNumbers(words, view);
  const labelled = placeLabels(words, places);
  draw(words, choose).forEach((group, k) => {
    const [x, y] = places[k];
    group.style.transform = `translate(${x}px, ${y}px)`;
    group.dataset.colour = colours[k] ?? "none";
    group.classList.toggle("labelled", labelled.has(k));
    group.classList.toggle("turned", x > frame.width - 90);
  });
  byId("map-note").textContent =
    `${words.length} words; the plane shows ` +
    `${Math.round(100 * (share[0] + share[1]))} % of how they differ.`;
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

// As many units as there are pixels, so that labels have one size on every screen.
function frameOf(picture) {
  const width = Math.max(280, Math.round(picture.getBoundingClientRect().width));
  const height = Math.round(Math.max(300, width * 0.5));
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return { width, height };
}

function scale(points, { width, height }) {
  const [x, y] = [0, 1].map((d) => extent(points.map((point) => point[d])));
  // One scale for both directions, so that distances can be compared; the labels need room, too.
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

// One colour for each sentence, or for each word that occurs again; the others have none.
function colourNumbers(words, { colour }) {
  if (colour === "sentence") return words.map(({ sentence }) => sentence % N_COLOURS);
  const counts = new Map();
  for (const { token } of words) {
    const word = token.toLowerCase();
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const repeated = [...counts].filter(([, count]) => count > 1).map(([word]) => word);
  return words.map(({ token }) => {
    const number = repeated.indexOf(token.toLowerCase());
    return number < 0 ? null : number % N_COLOURS;
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

export function showMapKey(sentences, colour) {
  const items = sentences.slice(0, N_COLOURS).map((_, s) =>
    element(
      "li",
      {},
      element("span", { class: "swatch", dataset: { colour: s } }),
      `sentence ${s + 1}`,
    ),
  );
  byId("map-key").replaceChildren(...(colour === "sentence" ? items : []));
}
