// The words as points: the first two principal components of their vectors.

import { clusters } from "./clusters.js";
import { byId, element, marked, svg } from "./dom.js";
import { placeLabels } from "./labels.js";
import { mix, principal, settle } from "./vectors.js";
import { makeZoom } from "./zoom.js";

const MARGIN = 40;
const N_COLORS = 8;
const MOST_POINTS = 300;
const MOST_NAMES = 12; // more occurrences are labeled by their number only
let before = []; // earlier positions of the points
let drawn = { key: "", groups: [] };
let current = null; // { words, places, frame, sentences }
let active = 0; // the point that Tab reaches

const zoom = makeZoom(byId("map"), () => current && arrange());

// `view`: { embedded, sentences, weights, gamma, word, color, only, places, chosen }
export function showMap(view, choose) {
  const all = pointsOf(view);
  const words = all.slice(0, MOST_POINTS);
  const vectors = words.map(({ row }) => mix(view.embedded, row, view.weights, view.gamma));
  const { points, share } = principal(vectors);
  before = settle(points, before);
  const frame = frameOf(byId("map"));
  current = { words, frame, sentences: view.sentences, places: scale(before, frame) };
  const groups = draw(words, choose);
  byId("map").classList.remove("moving");
  const colored = colorsOf(words, vectors, view);
  groups.forEach((group, k) => (group.dataset.color = colored.numbers[k] ?? "none"));
  arrange();
  showKey(colored.key);
  byId("map-note").textContent =
    `${words.length === all.length ? "" : `${words.length} of `}${all.length} words. ` +
    `PCA: the two components explain ${Math.round(100 * (share[0] + share[1]))}% of the variance.`;
}

// Compared words first; without two of them, all words.
function pointsOf({ sentences, word, only, places }) {
  let row = 0;
  let number = 0;
  const all = sentences.flatMap((tokens, sentence) =>
    tokens.map((token, position) => {
      const isCompared = token.toLowerCase() === word && places.length > 1;
      return { token, sentence, position, row: row++, isCompared, number: isCompared && ++number };
    }),
  );
  const compared = all.filter(({ isCompared }) => isCompared);
  if (only && compared.length > 1) return compared;
  const others = all.filter(({ token, isCompared }) => !isCompared && /[\p{L}\p{N}]/u.test(token));
  return [...compared, ...others];
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
  // One scale for both axes, so that distances can be compared.
  const unit = Math.min(
    (width - 2 * MARGIN - 40) / Math.max(1e-9, x.length),
    (height - 2 * MARGIN) / Math.max(1e-9, y.length),
  );
  return points.map((point) => [
    width / 2 + (point[0] - x.middle) * unit,
    height / 2 - (point[1] - y.middle) * unit,
  ]);
}

function extent(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return { middle: (low + high) / 2, length: high - low };
}

// A color number per word, and the key: names by color number.
function colorsOf(words, vectors, { color, sentences }) {
  if (color === "cluster") return colorsOfClusters(words, vectors);
  if (color === "word") return colorsOfWords(words);
  const key = sentences.length > N_COLORS ? [] : sentences.map((_, s) => `sentence ${s + 1}`);
  return { numbers: words.map(({ sentence }) => sentence % N_COLORS), key };
}

function colorsOfClusters(words, vectors) {
  const compared = words.filter(({ isCompared }) => isCompared); // these are first
  const numbers = clusters(vectors.slice(0, compared.length));
  const key = Array.from({ length: Math.max(-1, ...numbers) + 1 }, (_, cluster) => {
    const members = compared.filter((_, k) => numbers[k] === cluster).map(({ number }) => number);
    return `cluster ${cluster + 1}: ${ranges(members)}`;
  });
  return { numbers, key };
}

// Ascending numbers as text: 1–3, 7.
function ranges(numbers) {
  const runs = [];
  for (const number of numbers)
    if (runs.at(-1)?.[1] === number - 1) runs.at(-1)[1] = number;
    else runs.push([number, number]);
  return runs
    .map(([first, last]) => [first, last - first > 1 ? "–" : ", ", last])
    .map(([first, between, last]) => (first === last ? first : `${first}${between}${last}`))
    .join(", ");
}

function colorsOfWords(words) {
  const counts = new Map();
  for (const { token } of words) {
    const word = token.toLowerCase();
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const key = [...counts]
    .filter(([, count]) => count > 1)
    .sort((one, two) => two[1] - one[1])
    .slice(0, N_COLORS)
    .map(([word]) => word);
  const numbers = words.map(({ token }) => {
    const number = key.indexOf(token.toLowerCase());
    return number < 0 ? null : number;
  });
  return { numbers, key };
}

// Move points and labels to where they are at the present zoom.
function arrange() {
  const { words, places, frame } = current;
  const nCompared = words.filter(({ isCompared }) => isCompared).length;
  const points = words.map((word, k) => {
    const [x, y] = zoom.apply(places[k], frame);
    return { x, y, label: labelOf(word, nCompared), isCompared: word.isCompared };
  });
  const boxes = placeLabels(points, frame);
  drawn.groups.forEach((group, k) => {
    const { x, y, label } = points[k];
    const [line, , text] = group.children;
    const box = boxes[k];
    group.style.transform = `translate(${x}px, ${y}px)`;
    group.classList.toggle("labeled", Boolean(box));
    group.classList.toggle("far", Boolean(box?.isFar));
    if (!box) return;
    text.textContent = label;
    set(text, { x: box.x - x + box.width / 2, y: box.y - y + 13 });
    set(line, { x2: box.x - x + box.width / 2, y2: box.y - y + box.height / 2 });
  });
  hideTip();
}

function set(made, attributes) {
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
}

function labelOf({ token, number, isCompared }, nCompared) {
  if (!isCompared) return token;
  return nCompared > MOST_NAMES ? String(number) : `${token} ${number}`;
}

// A group for each word; those that are there stay, so that they can be seen to move.
function draw(words, choose) {
  const key = JSON.stringify(words);
  if (key !== drawn.key) {
    drawn = { key, groups: words.map((word, k) => drawPoint(word, k, choose)) };
    active = 0;
    drawn.groups[0]?.setAttribute("tabindex", 0);
    zoom.reset();
    byId("map").replaceChildren(...drawn.groups.toReversed()); // compared words on top
  }
  return drawn.groups;
}

function drawPoint(word, k, choose) {
  const { token, sentence, isCompared } = word;
  return svg(
    "g",
    {
      class: isCompared ? "point compared" : "point",
      role: "button",
      tabindex: -1,
      "aria-label": `${token}, sentence ${sentence + 1}`,
      onclick: () => choosePoint(k, choose),
      onpointerenter: () => showTip(k),
      onpointerleave: hideTip,
      onfocus: ({ target }) => {
        // By keyboard only: the map must not move under a pointer that is down.
        if (target.matches(":focus-visible")) zoom.reveal(current.places[k]);
        showTip(k);
      },
      onblur: hideTip,
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        choosePoint(k, choose);
      },
    },
    svg("line", { class: "leader" }),
    svg("circle", { r: isCompared ? 7 : 4 }),
    svg("text", { "text-anchor": "middle" }),
  );
}

function choosePoint(k, choose) {
  const { sentence, position } = current.words[k];
  choose({ sentence, position });
  const { words } = current; // the points may be other ones now
  const now = words.findIndex((word) => word.sentence === sentence && word.position === position);
  if (now >= 0) activate(now);
}

function activate(k) {
  drawn.groups[active]?.setAttribute("tabindex", -1);
  active = k;
  drawn.groups[k].setAttribute("tabindex", 0);
  drawn.groups[k].focus({ preventScroll: true });
}

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// Arrow keys go to the nearest point in that direction.
byId("map").addEventListener("keydown", (event) => {
  if (event.key === "Escape") return hideTip();
  const direction = DIRECTIONS[event.key];
  if (!direction || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  const [x, y] = current.places[active];
  const found = current.places
    .map(([u, v], k) => {
      const along = (u - x) * direction[0] + (v - y) * direction[1];
      const across = Math.abs((u - x) * direction[1]) + Math.abs((v - y) * direction[0]);
      return { k, cost: k !== active && along > 0 ? along + 2 * across : Infinity };
    })
    .reduce((one, two) => (two.cost < one.cost ? two : one));
  if (found.cost < Infinity) activate(found.k);
});

function showTip(k) {
  const { words, sentences, places, frame } = current;
  const { sentence, position } = words[k];
  const [x, y] = zoom.apply(places[k], frame);
  const tip = byId("map-tip");
  tip.replaceChildren(
    element("span", { class: "hint" }, `sentence ${sentence + 1}`),
    element("bdi", { dir: "auto" }, ...marked(sentences[sentence], position, 8)),
  );
  tip.hidden = false;
  const left = Math.min(x, frame.width - tip.offsetWidth - 4);
  const isBelow = y < frame.height / 2;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${isBelow ? y + 22 : y - tip.offsetHeight - 22}px`;
}

function hideTip() {
  byId("map-tip").hidden = true;
}

function showKey(names) {
  const items = names.map((name, k) =>
    element("li", {}, element("span", { class: "swatch", dataset: { color: k } }), name),
  );
  byId("map-key").replaceChildren(...items);
}
