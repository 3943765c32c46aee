// Vectors: mixing layers, similarity, PCA.

// The mixed vector of one token: gamma * sum of weights[l] * layer l.
export function mix(embedded, token, weights, gamma = 1) {
  const { values, tokens, width } = embedded;
  const mixed = new Float64Array(width);
  weights.forEach((weight, layer) => {
    const start = (layer * tokens + token) * width;
    for (let d = 0; d < width; d++) mixed[d] += gamma * weight * values[start + d];
  });
  return mixed;
}

export function dot(one, two) {
  let sum = 0;
  for (let d = 0; d < one.length; d++) sum += one[d] * two[d];
  return sum;
}

export function cosine(one, two) {
  const lengths = Math.sqrt(dot(one, one) * dot(two, two));
  return lengths > 0 ? dot(one, two) / lengths : 0;
}

export function distance(one, two) {
  let sum = 0;
  for (let d = 0; d < one.length; d++) sum += (one[d] - two[d]) ** 2;
  return Math.sqrt(sum);
}

// The measure of all pairs, as rows.
export function compare(vectors, measure) {
  return vectors.map((one) => vectors.map((two) => measure(one, two)));
}

// PCA with two components: coordinates, and the share of the variance of each component. Computed
// from the Gram matrix, which is smaller than the covariance matrix.
export function principal(vectors) {
  const n = vectors.length;
  const center = new Float64Array(vectors[0]?.length ?? 0);
  for (const vector of vectors) vector.forEach((value, d) => (center[d] += value / n));
  const centered = vectors.map((vector) => vector.map((value, d) => value - center[d]));
  const products = compare(centered, dot);
  const total = products.reduce((sum, row, k) => sum + row[k], 0);
  const axes = [0, 1].map((k) => strongest(products, k));
  return {
    points: vectors.map((_, k) => axes.map((axis) => axis.direction[k] * Math.sqrt(axis.strength))),
    share: total > 0 ? axes.map((axis) => axis.strength / total) : [0, 0],
  };
}

// The first eigenvector of a symmetric matrix by power iteration; the matrix is deflated.
function strongest(matrix, seed) {
  const n = matrix.length;
  let direction = Float64Array.from({ length: n }, (_, k) => Math.sin(1 + seed + k * (seed + 2)));
  let strength = 0;
  for (let step = 0; step < 200; step++) {
    const next = Float64Array.from(matrix, (row) => dot(row, direction));
    const length = Math.sqrt(dot(next, next));
    if (length < 1e-12) return { direction: new Float64Array(n), strength: 0 };
    const moved = Math.abs(length - strength);
    direction = next.map((value) => value / length);
    strength = length;
    if (moved < 1e-9 * length) break;
  }
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) matrix[i][j] -= strength * direction[i] * direction[j];
  return { direction, strength };
}

// Rotate and mirror points to be as close as possible to their earlier positions (Procrustes), so
// that the picture does not flip between updates.
export function settle(points, before) {
  if (before.length !== points.length) return points;
  let [a, b, c, d] = [0, 0, 0, 0];
  points.forEach(([x, y], k) => {
    a += before[k][0] * x;
    b += before[k][0] * y;
    c += before[k][1] * x;
    d += before[k][1] * y;
  });
  const turned = Math.hypot(a + d, c - b);
  const mirrored = Math.hypot(a - d, b + c);
  if (Math.max(turned, mirrored) < 1e-12) return points;
  if (turned >= mirrored) {
    const [cos, sin] = [(a + d) / turned, (c - b) / turned];
    return points.map(([x, y]) => [cos * x - sin * y, sin * x + cos * y]);
  }
  const [cos, sin] = [(a - d) / mirrored, (b + c) / mirrored];
  return points.map(([x, y]) => [cos * x + sin * y, sin * x - cos * y]);
}
