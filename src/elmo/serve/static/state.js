// The state of the page as URL fragment, which browsers do not send to the server.

const COLORS = ["cluster", "sentence", "word"];

export function readAddress(hash, text) {
  const fields = new URLSearchParams(hash.slice(1));
  const numbers = (name) => fields.get(name)?.split(",").map(Number);
  const isFine = (values) => values?.every((value) => value >= 0 && value <= 1000);
  const chosen = numbers("at");
  const weights = numbers("s");
  const gamma = Number(fields.get("gamma"));
  return {
    text: fields.get("text") ?? text,
    word: fields.get("word"),
    chosen: isFine(chosen) && chosen.length === 2
      ? { sentence: chosen[0], position: chosen[1] } : null,
    weights: isFine(weights) ? weights : null,
    gamma: gamma > 0 && gamma <= 3 ? gamma : 1,
    measure: fields.get("by") === "distance" ? "distance" : "cosine",
    color: COLORS.includes(fields.get("color")) ? fields.get("color") : COLORS[0],
    only: !fields.has("all"),
    anyWord: fields.has("any"),
  };
}

export function addressOf(state) {
  const fields = new URLSearchParams({ text: state.text });
  if (state.word) fields.set("word", state.word);
  if (state.chosen) fields.set("at", `${state.chosen.sentence},${state.chosen.position}`);
  fields.set("s", state.weights.map((weight) => Number(weight.toFixed(2))).join(","));
  if (state.gamma !== 1) fields.set("gamma", state.gamma.toFixed(2));
  if (state.measure !== "cosine") fields.set("by", state.measure);
  if (state.color !== COLORS[0]) fields.set("color", state.color);
  if (!state.only) fields.set("all", "");
  if (state.anyWord) fields.set("any", "");
  return `#${fields}`;
}

// Record the state in the browser's history. Typing and moving a slider change the state many
// times: successive changes of one `kind` are one entry.
let lastKind = null;
export function record(state, kind = null) {
  dropPending();
  const address = addressOf(state);
  const isSame = address === location.hash;
  if (isSame || kind === "start" || (kind && kind === lastKind))
    history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  if (!isSame || kind) lastKind = kind;
}

// Record the state when nothing has changed for a while. Browsers refuse more than about ten changes
// of the URL in a second, and a slider moves more often.
let pending = null; // { state, kind, timer }
export function recordLater(state, kind) {
  dropPending();
  pending = { state, kind, timer: setTimeout(recordPending, 250) };
}

export function recordPending() {
  if (pending) record(pending.state, pending.kind);
}

export function dropPending() {
  clearTimeout(pending?.timer);
  pending = null;
}
