// The recurrence of a projected, clipped LSTM layer, forward and backward pass, with several
// directions in parallel. Rows (sentences) are independent: a task is a group of rows of one
// direction, and a thread runs its whole recurrence without synchronization between the steps.
//
// Gate columns are interleaved: every kLanes units have input, candidate, forget and output
// gate, kLanes columns each, so that two panels of a product hold all gates of the same units and
// the pointwise work is done while they are in the first-level cache. Units are padded with zeros
// to a multiple of kLanes; zero weights keep a padded unit's cell and gradient at zero.
#pragma once

#include "matrix.h"
#include "pointwise.h"

// The structures and their fields are mirrored in library.py.
struct Layer {
  int64_t input_dim, dim, projection_dim;
  float cell_clip, projection_clip;  // infinity: no clip
  const float *input_weight, *recurrent_weight, *bias, *projection_weight;
  // Packed weights, and the transposes of the last two for the backward pass.
  Packed input, recurrent, projection, recurrent_transposed, projection_transposed;

  int64_t padded_dim() const { return round_up(dim, kLanes); }
  int64_t gates_dim() const { return 4 * padded_dim(); }
  int64_t n_unit_blocks() const { return padded_dim() / kLanes; }
  Packing input_packing() const { return {input_dim, gates_dim(), input_dim}; }
  Packing recurrent_packing() const { return {projection_dim, gates_dim(), projection_dim}; }
  Packing projection_packing() const { return {dim, projection_dim, kDepth}; }
  Packing recurrent_transposed_packing() const { return {gates_dim(), projection_dim, kDepth}; }
  Packing projection_transposed_packing() const { return {projection_dim, dim, projection_dim}; }
};

// One direction of one layer over packed tokens. Shapes as in recurrence.py; G = gates_dim(),
// Q = padded_dim().
struct Pass {
  Layer layer;
  int64_t n_steps, n_sentences, n_rows;
  const int64_t *batch_sizes, *index;
  const uint8_t* resets;
  const float* rows;      // (U, D)
  float* from_input;      // (U, G), input product and bias
  float *hidden, *cell;   // (B, P), (B, H): the state, updated in place
  float* outputs;         // (N, P)
  // Kept for the backward pass; null if only the outputs are needed.
  float *gates, *cells, *exposed, *previous_hidden;  // (N, G), (N, Q), (N, Q), (N, P)
  const float *initial_cell, *grad_outputs;          // (B, H), (N, P)
  float *grad_hidden, *grad_cell;                    // (B, P), (B, H): updated in place
  float *grad_gates, *grad_projected;                // (N, G), (N, P)
  float* grad_from_input;                            // (U, G)

  int64_t row_of(int64_t token) const { return index == nullptr ? token : index[token]; }
  bool is_reset(int64_t token) const { return resets != nullptr && resets[token]; }
};

// The row of a (4H, K) weight that is in an interleaved column, or -1 for a padded unit.
static inline int64_t weight_row(const Layer& layer, int64_t column) {
  const int64_t unit = column / (4 * kLanes) * kLanes + column % kLanes;
  return unit < layer.dim ? column / kLanes % 4 * layer.dim + unit : -1;
}

// Prefetch the four vectors at an address.
static inline void fetch(const float* from) {
  for (int i = 0; i < 4 * kLanes; i += 16) __builtin_prefetch(from + i, 0);
}
static inline void fetch_to_write(float* to) {
  for (int i = 0; i < 4 * kLanes; i += 16) __builtin_prefetch(to + i, 1);
}

// Split every direction's rows into groups of about equal numbers of tokens and run them all.
template <typename Way>
static void run_groups(const Pass* passes, int64_t n_passes, int64_t n_threads) {
  struct Group {
    const Pass* pass;
    int64_t first, last;
  };
  const int64_t n_groups = (n_threads + n_passes - 1) / n_passes;
  std::vector<Group> groups;
  for (const Pass* pass = passes; pass < passes + n_passes; ++pass) {
    std::vector<int64_t> lengths(pass->n_sentences, 0);
    int64_t n_tokens = 0, n_taken = 0;
    for (int64_t t = 0; t < pass->n_steps; n_tokens += pass->batch_sizes[t++])
      for (int64_t r = 0; r < pass->batch_sizes[t]; ++r) ++lengths[r];
    for (int64_t r = 0, first = 0, number = 1; r < pass->n_sentences; ++r) {
      n_taken += lengths[r];
      if (r + 1 < pass->n_sentences && n_taken * n_groups < n_tokens * number) continue;
      groups.push_back({pass, first, r + 1});
      first = r + 1;
      ++number;
    }
  }
  run_in_parallel(static_cast<int64_t>(groups.size()), n_threads, [&](int64_t task) {
    Way(*groups[task].pass, groups[task].first, groups[task].last).run();
  });
}
