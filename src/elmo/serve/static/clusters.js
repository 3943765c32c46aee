// Clusters of the occurrences of a word: average linkage by cosine distance.

import { compare, cosine } from "./vectors.js";

const MOST_CLUSTERS = 6;
const LEAST_SILHOUETTE = 0.15; // below it, the occurrences are one cluster

// The cluster number of each vector, numbered in order of appearance. The number of clusters is the
// one with the largest mean silhouette.
export function clusters(vectors) {
  const distances = compare(vectors, (one, two) => 1 - cosine(one, two));
  let best = { labels: vectors.map(() => 0), score: LEAST_SILHOUETTE };
  if (distances.flat().every((distance) => distance < 1e-6)) return best.labels;
  const groups = vectors.map((_, k) => [k]);
  while (groups.length > 2) {
    merge(groups, distances);
    if (groups.length > MOST_CLUSTERS || groups.length === vectors.length) continue;
    const score = silhouette(groups, distances);
    if (score > best.score) best = { labels: labelsOf(groups, vectors.length), score };
  }
  return best.labels;
}

// Merge the two groups with the smallest mean distance.
function merge(groups, distances) {
  let nearest = { distance: Infinity };
  groups.forEach((one, i) =>
    groups.slice(0, i).forEach((two, j) => {
      const distance = meanDistance(one, two, distances);
      if (distance < nearest.distance) nearest = { i, j, distance };
    }),
  );
  groups[nearest.j].push(...groups[nearest.i]);
  groups.splice(nearest.i, 1);
}

function meanDistance(one, two, distances) {
  let sum = 0;
  for (const a of one) for (const b of two) sum += distances[a][b];
  return sum / (one.length * two.length);
}

function silhouette(groups, distances) {
  const scores = groups.flatMap((group) =>
    group.map((k) => {
      const others = groups.filter((other) => other !== group);
      const apart = Math.min(...others.map((other) => meanDistance([k], other, distances)));
      if (group.length === 1) return 0;
      const within = (meanDistance([k], group, distances) * group.length) / (group.length - 1);
      return (apart - within) / Math.max(apart, within, 1e-9);
    }),
  );
  return scores.reduce((sum, score) => sum + score, 0) / scores.length;
}

function labelsOf(groups, n) {
  const labels = Array.from({ length: n });
  groups
    .toSorted((one, two) => Math.min(...one) - Math.min(...two))
    .forEach((group, number) => group.forEach((k) => (labels[k] = number)));
  return labels;
}
