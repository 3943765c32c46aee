// The sliders for the layer weights, and the other controls.

import { byId, element } from "./dom.js";

const SUBSCRIPTS = ["₀", "₁", "₂", "₃", "₄", "₅", "₆", "₇", "₈", "₉"];
const ABOUT = ["without context", "LSTM layer 1", "LSTM layer 2"];
const BOXES = { only: "only", "any-word": "anyWord" };

// `moved(weight, value)` is called on every change; `weight` is a layer index or "gamma".
export function makeSliders(nLayers, moved) {
  const slider = (id, name, about, most, weight) =>
    element(
      "label",
      { class: "slider" },
      element("span", { class: "slider-name" }, name, element("span", { class: "about" }, about)),
      element("input", {
        type: "range",
        id,
        min: 0,
        max: most,
        step: 0.01,
        oninput: (event) => moved(weight, Number(event.target.value)),
      }),
      element("output", { for: id, id: `${id}-value` }),
    );
  const layers = Array.from({ length: nLayers }, (_, k) =>
    slider(`weight-${k}`, `s${SUBSCRIPTS[k]}`, ABOUT[k] ?? "", 1, k),
  );
  byId("sliders").replaceChildren(...layers, slider("gamma", "γ", "scale", 3, "gamma"));
}

// `changed(name, value)` is called for every control that is not a slider.
export function onChoices(changed) {
  for (const button of document.querySelectorAll('[name="measure"], [name="color"]'))
    button.addEventListener("change", () => changed(button.name, button.value));
  for (const [id, name] of Object.entries(BOXES))
    byId(id).addEventListener("change", (event) => changed(name, event.target.checked));
}

// Set all controls from the state; `weights` are its weights, normalized to sum to one.
export function showChoices(state, weights) {
  weights.forEach((weight, k) => {
    byId(`weight-${k}`).value = state.weights[k];
    byId(`weight-${k}-value`).textContent = weight.toFixed(2);
  });
  byId("gamma").value = state.gamma;
  byId("gamma-value").textContent = state.gamma.toFixed(2);
  for (const name of ["measure", "color"])
    document.querySelector(`[name="${name}"][value="${state[name]}"]`).checked = true;
  for (const [id, name] of Object.entries(BOXES)) byId(id).checked = state[name];
}
