// Positions of labels around points, without overlap.

const HEIGHT = 17;
const GAP = 10; // between the center of a point and its label
const RINGS = [0, 8, 18, 30, 44, 60, 80, 105, 135, 170, 210];
const ANGLES = [0, 180, 315, 45, 225, 135, 270, 90, 337, 22, 202, 158, 292, 248, 68, 112];
const pen = document.createElement("canvas").getContext("2d");
pen.font = "600 13px Inter, system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

// `points`: { x, y, label, isCompared }. For each point the box of its label, or null if there is no
// space. Labels of compared words are placed first, and farther away if there is no space nearby.
export function placeLabels(points, frame) {
  const taken = points
    .filter(({ isCompared }) => isCompared)
    .map(({ x, y }) => ({ x: x - 8, y: y - 8, width: 16, height: 16 }));
  const boxes = points.map(() => null);
  const order = points.map((_, k) => k);
  order.sort((a, b) => points[b].isCompared - points[a].isCompared);
  for (const k of order) {
    const { x, y } = points[k];
    if (x < 0 || y < 0 || x > frame.width || y > frame.height) continue;
    boxes[k] = freeBox(points[k], taken, frame);
    if (boxes[k]) taken.push(boxes[k]);
  }
  return boxes;
}

function freeBox({ x, y, label, isCompared }, taken, frame) {
  const width = pen.measureText(label).width * 1.05 + 4;
  for (const ring of isCompared ? RINGS : [0])
    for (const angle of isCompared ? ANGLES : ANGLES.slice(0, 2)) {
      const cos = Math.cos((angle * Math.PI) / 180);
      const sin = Math.sin((angle * Math.PI) / 180);
      const box = {
        x: x + cos * (GAP + ring + width / 2) - width / 2,
        y: y + sin * (GAP + ring) - HEIGHT / 2,
        width,
        height: HEIGHT,
        isFar: ring > 8,
      };
      if (isInside(box, frame) && !taken.some((other) => overlap(box, other))) return box;
    }
  return null;
}

const isInside = (box, { width, height }) =>
  box.x > 2 && box.y > 2 && box.x + box.width < width - 2 && box.y + box.height < height - 2;

const overlap = (one, two) =>
  one.x < two.x + two.width &&
  two.x < one.x + one.width &&
  one.y < two.y + two.height &&
  two.y < one.y + one.height;
