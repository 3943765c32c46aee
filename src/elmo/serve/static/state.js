// The state of the page as URL fragment, which browsers do not send to the server.

const START = { word: null, chosen: null, weights: null, gamma: 1, measure: "cosine",
  color: "sentence", only: false, anyWord: false };

export function readAddress(hash, sentences) {
  const said = new URLSearchParams(hash.slice(1));
  const numbers = (name) => said.get(name)?.split(",").map(Number);
  const isFine = (values) => values?.every((value) => value >= 0 && value <= 1000);
  const chosen = numbers("at");
  const weights = numbers("s");
  const gamma = Number(said.get("gamma"));
  return {
    ...START,
    text: said.get("text") ?? sentences.join("\n"),
    word: said.get("word"),
    chosen: isFine(chosen) && chosen.length === 2
      ? { sentence: chosen[0], position: chosen[1] } : null,
    weights: isFine(weights) ? weights : null,
    gamma: gamma > 0 && gamma <= 3 ? gamma : 1,
    measure: said.get("by") === "distance" ? "distance" : "cosine",
    color: said.get("color") === "word" ? "word" : "sentence",
    only: said.has("only"),
    anyWord: said.has("any"),
  };
}

export function addressOf(state) {
  const said = new URLSearchParams({ text: state.text });
  if (state.word) said.set("word", state.word);
  if (state.chosen) said.set("at", `${state.chosen.sentence},${state.chosen.position}`);
  said.set("s", state.weights.map((weight) => Number(weight.toFixed(2))).join(","));
  if (state.gamma !== 1) said.set("gamma", state.gamma.toFixed(2));
  if (state.measure !== "cosine") said.set("by", state.measure);
  if (state.color !== "sentence") said.set("color", state.color);
  if (state.only) said.set("only", "");
  if (state.anyWord) said.set("any", "");
  return `#${said}`;
}
