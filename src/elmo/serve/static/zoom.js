// Zoom and pan of the map: buttons, keys, Ctrl and the wheel, dragging, two fingers.

import { byId } from "./dom.js";

const MOST = 30;
const STEP = 1.5;
const DRAG = 4; // pixels; a shorter movement is a click
const EDGE = 24; // pixels between a revealed place and the edge of the picture

// `changed()` is called on every change; `apply(place, frame)` is the position of a place.
export function makeZoom(picture, changed) {
  let factor = 1;
  let [left, top] = [0, 0]; // of the visible part, in units of the frame
  const pointers = new Map();
  let isDragging = false;

  const frame = () => picture.viewBox.baseVal;
  const clamp = (value, most) => Math.max(0, Math.min(most, value));

  function update() {
    left = clamp(left, frame().width * (1 - 1 / factor));
    top = clamp(top, frame().height * (1 - 1 / factor));
    picture.classList.toggle("zoomed", factor > 1);
    byId("zoom-out").disabled = byId("zoom-reset").disabled = factor === 1;
    byId("zoom-in").disabled = factor === MOST;
    picture.classList.add("moving"); // no transition
    changed();
  }

  // Zoom around a point of the picture, which stays where it is.
  function zoomBy(by, x = frame().width / 2, y = frame().height / 2) {
    const next = Math.max(1, Math.min(MOST, factor * by));
    left += x / factor - x / next;
    top += y / factor - y / next;
    factor = next;
    update();
  }

  function panBy(x, y) {
    left += x / factor;
    top += y / factor;
    update();
  }

  // Move the visible part, if need be, so that a place is in it.
  function reveal([x, y]) {
    const { width, height } = frame();
    const move = (first, value, length) =>
      Math.max(value - (length - EDGE) / factor, Math.min(value - EDGE / factor, first));
    const [nextLeft, nextTop] = [move(left, x, width), move(top, y, height)];
    if (nextLeft === left && nextTop === top) return;
    [left, top] = [nextLeft, nextTop];
    update();
  }

  function reset() {
    factor = 1;
    [left, top] = [0, 0];
    update();
    picture.classList.remove("moving");
  }

  const position = ({ clientX, clientY }) => {
    const box = picture.getBoundingClientRect();
    return [clientX - box.left, clientY - box.top];
  };

  byId("zoom-in").addEventListener("click", () => zoomBy(STEP));
  byId("zoom-out").addEventListener("click", () => zoomBy(1 / STEP));
  byId("zoom-reset").addEventListener("click", reset);
  picture.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY / 200), ...position(event));
  }, { passive: false });
  picture.addEventListener("keydown", (event) => {
    const pans = { ArrowLeft: [-40, 0], ArrowRight: [40, 0], ArrowUp: [0, -40], ArrowDown: [0, 40] };
    const { key } = event;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (key === "+" || key === "=") zoomBy(STEP);
    else if (key === "-") zoomBy(1 / STEP);
    else if (key === "0") reset();
    else if (event.shiftKey && pans[key]) panBy(...pans[key]);
    else return;
    event.preventDefault();
  });
  picture.addEventListener("pointerdown", (event) => {
    if (pointers.size === 0) isDragging = false; // no click follows where a finger scrolled the page
    pointers.set(event.pointerId, position(event));
  });
  picture.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return;
    const [x, y] = position(event);
    const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    if (!isDragging && !other && Math.hypot(x - last[0], y - last[1]) < DRAG) return;
    isDragging = true;
    picture.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [x, y]);
    if (!other) return panBy(last[0] - x, last[1] - y);
    const apart = (point) => Math.max(1, Math.hypot(point[0] - other[0], point[1] - other[1]));
    zoomBy(apart([x, y]) / apart(last), (x + other[0]) / 2, (y + other[1]) / 2);
  });
  for (const name of ["pointerup", "pointercancel"])
    window.addEventListener(name, (event) => pointers.delete(event.pointerId));
  picture.addEventListener("click", (event) => {
    if (isDragging) event.stopPropagation();
    isDragging = false;
  }, { capture: true });

  return {
    reset,
    reveal,
    apply: ([x, y]) => [(x - left) * factor, (y - top) * factor],
  };
}
