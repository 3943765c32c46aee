// The recurrence of a projected, clipped LSTM layer, forwards and backwards, several directions
// side by side. Rows (sentences) are independent: a task is a group of rows of one direction, and a
// thread runs its whole recurrence alone, with no waiting for others between the steps.
//
// Gate columns are interleaved: for every kLanes units stand input, candidate, forget and output
// gate, kLanes columns each, so that two panels of a product hold all gates of the same units and
// the pointwise work is done while they are in the first-level cache. Units are padded with zeros
// to a multiple of kLanes; zero weights keep a padded unit's cell and gradient at zero.
#include "matrix.h"
#include "pointwise.h"

// Ask for the four vectors at an address before they are needed.
static inline void fetch(const float* from) {
  for (int i = 0; i < 4 * kLanes; i += 16) __builtin_prefetch(from + i, 0);
}
static inline void fetch_to_write(float* to) {
  for (int i = 0; i < 4 * kLanes; i += 16) __builtin_prefetch(to + i, 1);
}

static inline Vector keep_within(Vector gradient, Vector x, float limit) {
  const Vector bound = splat(limit), zero = splat(0.0f);
  gradient = x > bound ? zero : gradient;
  return x < -bound ? zero : gradient;
}

// The structures and their fields are mirrored in library.py.
struct Layer {
  int64_t input_dim, dim, projection_dim;
  float cell_clip, projection_clip;  // infinity: no clip
  const float *input_weight, *recurrent_weight, *bias, *projection_weight;
  // Packed weights, and the last two's transposes for the way back; null where not wanted.
  float *input, *recurrent, *projection, *recurrent_transposed, *projection_transposed;

  int64_t padded_dim() const { return round_up(dim, kLanes); }
  int64_t gates_dim() const { return 4 * padded_dim(); }
  int64_t n_unit_blocks() const { return padded_dim() / kLanes; }
  Packing input_packing() const { return {input_dim, gates_dim(), input_dim}; }
  Packing recurrent_packing() const { return {projection_dim, gates_dim(), projection_dim}; }
  Packing projection_packing() const { return {dim, projection_dim, kDepth}; }
  Packing recurrent_transposed_packing() const { return {gates_dim(), projection_dim, kDepth}; }
  Packing projection_transposed_packing() const { return {projection_dim, dim, projection_dim}; }
};

// One direction of one layer over packed tokens. Shapes as in kernels/__init__.py; G = gates_dim(),
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
  // Kept for the way back; null when only the outputs are wanted.
  float *gates, *cells, *exposed, *previous_hidden;  // (N, G), (N, Q), (N, Q), (N, P)
  const float *initial_cell, *grad_outputs;          // (B, H), (N, P)
  float *grad_hidden, *grad_cell;                    // (B, P), (B, H): updated in place
  float *grad_gates, *grad_projected;                // (N, G), (N, P)
  float* grad_from_input;                            // (U, G)

  int64_t row_of(int64_t token) const { return index == nullptr ? token : index[token]; }
  bool is_reset(int64_t token) const { return resets != nullptr && resets[token]; }
};

// The row of a (4H, K) weight that stands in interleaved column n, or -1 for a padded unit.
static inline int64_t weight_row(const Layer& layer, int64_t column) {
  const int64_t unit = column / (4 * kLanes) * kLanes + column % kLanes;
  return unit < layer.dim ? column / kLanes % 4 * layer.dim + unit : -1;
}

static void pack_layer(const Layer& layer, int64_t part) {
  // Row of the weight, or null for a padded unit.
  const auto gate = [&](const float* weight, int64_t column, int64_t depth) {
    const int64_t row = weight_row(layer, column);
    return row < 0 ? nullptr : weight + row * depth;
  };
  const int64_t n_inputs = layer.input_dim, n_projected = layer.projection_dim;
  if (part == 0 && layer.input != nullptr)
    pack(layer.input_packing(), layer.input,
         [&](int64_t n) { return gate(layer.input_weight, n, n_inputs); });
  if (part == 1 && layer.recurrent != nullptr)
    pack(layer.recurrent_packing(), layer.recurrent,
         [&](int64_t n) { return gate(layer.recurrent_weight, n, n_projected); });
  if (part == 2 && layer.projection != nullptr)
    pack(layer.projection_packing(), layer.projection,
         [&](int64_t n) { return layer.projection_weight + n * layer.dim; });
  if (part == 3 && layer.recurrent_transposed != nullptr)
    pack_rows(layer.recurrent_transposed_packing(), layer.recurrent_transposed,
              [&](int64_t k) { return gate(layer.recurrent_weight, k, n_projected); });
  if (part == 4 && layer.projection_transposed != nullptr)
    pack_rows(layer.projection_transposed_packing(), layer.projection_transposed,
              [&](int64_t k) { return layer.projection_weight + k * layer.dim; });
}

// Input product of the unit blocks [first, last): from_input = rows x weights + bias.
static void multiply_inputs(const Pass& pass, int64_t first, int64_t last) {
  const Layer& layer = pass.layer;
  constexpr int64_t kRowsAtOnce = 20 * kTileRows;
  const Packing packing = layer.input_packing();
  Scratch sums(kRowsAtOnce * 2 * kPanel);
  for (int64_t row = 0; row < pass.n_rows; row += kRowsAtOnce) {
    const int64_t n_rows = std::min(kRowsAtOnce, pass.n_rows - row);
    for (int64_t block = first; block < last; ++block) {
      for (int64_t half = 0; half < 2; ++half)
        multiply(n_rows, pass.rows + row * layer.input_dim, layer.input_dim,
                 layer.input + packing.offset(0, 2 * block + half), layer.input_dim,
                 sums.get() + half * kPanel, 2 * kPanel, false);
      Vector bias[4];
      for (int64_t column = 0; column < 4 * kLanes; ++column) {
        const int64_t from = weight_row(layer, block * 4 * kLanes + column);
        bias[column / kLanes][column % kLanes] = from < 0 ? 0.0f : layer.bias[from];
      }
      for (int64_t r = 0; r < n_rows; ++r)
        for (int64_t gate = 0; gate < 4; ++gate)
          store(pass.from_input + (row + r) * layer.gates_dim() + (4 * block + gate) * kLanes,
                load(sums.get() + (4 * r + gate) * kLanes) + bias[gate]);
    }
  }
}

// One group of rows on its way through the steps, forwards.
class Forward {
 public:
  Forward(const Pass& pass, int64_t first, int64_t last)
      : pass_(pass), layer_(pass.layer), first_(first), n_rows_(last - first),
        hidden_stride_(layer_.projection_dim + kGap),
        projected_stride_(round_up(layer_.projection_dim, kPanel) + kGap),
        hidden_(n_rows_ * hidden_stride_), cell_(n_rows_ * layer_.padded_dim()),
        exposed_(n_rows_ * (kDepth + kGap)), projected_(n_rows_ * projected_stride_),
        gates_(n_rows_ * 4 * kLanes) {}

  void run() {
    const int64_t n_projected = layer_.projection_dim;
    for (int64_t r = 0; r < n_rows_; ++r) {
      std::memcpy(hidden_row(r), pass_.hidden + (first_ + r) * n_projected, n_projected * 4);
      std::memcpy(cell_row(r), pass_.cell + (first_ + r) * layer_.dim, layer_.dim * 4);
    }
    for (int64_t t = 0, start = 0; t < pass_.n_steps; start += pass_.batch_sizes[t++]) {
      const int64_t n_running = std::min(pass_.batch_sizes[t] - first_, n_rows_);
      if (n_running <= 0) break;
      step(n_running, start + first_);
    }
    for (int64_t r = 0; r < n_rows_; ++r) {
      std::memcpy(pass_.hidden + (first_ + r) * n_projected, hidden_row(r), n_projected * 4);
      std::memcpy(pass_.cell + (first_ + r) * layer_.dim, cell_row(r), layer_.dim * 4);
    }
  }

 private:
  float* hidden_row(int64_t r) const { return hidden_.get() + r * hidden_stride_; }
  float* cell_row(int64_t r) const { return cell_.get() + r * layer_.padded_dim(); }

  void step(int64_t n_running, int64_t token) {
    begin_step(n_running, token);
    const Packing packing = layer_.projection_packing();
    constexpr int64_t kBlocksAtOnce = kDepth / kLanes;
    for (int64_t first = 0; first < layer_.n_unit_blocks(); first += kBlocksAtOnce) {
      const int64_t last = std::min(first + kBlocksAtOnce, layer_.n_unit_blocks());
      for (int64_t block = first; block < last; ++block)
        compute_units(n_running, token, block, exposed_.get() + (block - first) * kLanes);
      // The units just computed are projected while they are in the cache.
      const int64_t number = first / kBlocksAtOnce;
      for (int64_t panel = 0; panel < packing.n_panels(); ++panel)
        multiply(n_running, exposed_.get(), kDepth + kGap,
                 layer_.projection + packing.offset(number, panel), packing.depth_of(number),
                 projected_.get() + panel * kPanel, projected_stride_, number > 0);
    }
    end_step(n_running, token);
  }

  void begin_step(int64_t n_running, int64_t token) {
    const int64_t n_projected = layer_.projection_dim;
    for (int64_t r = 0; r < n_running; ++r) {
      if (pass_.is_reset(token + r)) {
        std::memset(hidden_row(r), 0, n_projected * 4);
        std::memset(cell_row(r), 0, layer_.padded_dim() * 4);
      }
      if (pass_.previous_hidden != nullptr)
        std::memcpy(pass_.previous_hidden + (token + r) * n_projected, hidden_row(r),
                    n_projected * 4);
    }
  }

  void compute_units(int64_t n_running, int64_t token, int64_t block, float* exposed) {
    const Packing packing = layer_.recurrent_packing();
    for (int64_t half = 0; half < 2; ++half)
      multiply(n_running, hidden_.get(), hidden_stride_,
               layer_.recurrent + packing.offset(0, 2 * block + half), layer_.projection_dim,
               gates_.get() + half * kPanel, 2 * kPanel, false);
    const int64_t gates_dim = layer_.gates_dim(), padded_dim = layer_.padded_dim();
    for (int64_t r = 0; r < n_running; ++r) {
      const float* sums = gates_.get() + r * 4 * kLanes;
      const float* inputs =
          pass_.from_input + pass_.row_of(token + r) * gates_dim + block * 4 * kLanes;
      float* cell_at = cell_row(r) + block * kLanes;
      fetch(inputs + 4 * kLanes);  // what the next block of units will ask for
      const Vector input = sigmoid(load(sums) + load(inputs));
      const Vector candidate = tanh(load(sums + kLanes) + load(inputs + kLanes));
      const Vector forget = sigmoid(load(sums + 2 * kLanes) + load(inputs + 2 * kLanes));
      const Vector output = sigmoid(load(sums + 3 * kLanes) + load(inputs + 3 * kLanes));
      const Vector cell = clip(forget * load(cell_at) + input * candidate, layer_.cell_clip);
      const Vector shown = output * tanh(cell);
      store(cell_at, cell);
      store(exposed + r * (kDepth + kGap), shown);
      if (pass_.gates == nullptr) continue;
      float* kept = pass_.gates + (token + r) * gates_dim + block * 4 * kLanes;
      fetch_to_write(kept + 4 * kLanes);
      fetch_to_write(pass_.cells + (token + r) * padded_dim + (block + 1) * kLanes);
      fetch_to_write(pass_.exposed + (token + r) * padded_dim + (block + 1) * kLanes);
      store(kept, input);
      store(kept + kLanes, candidate);
      store(kept + 2 * kLanes, forget);
      store(kept + 3 * kLanes, output);
      store(pass_.cells + (token + r) * padded_dim + block * kLanes, cell);
      store(pass_.exposed + (token + r) * padded_dim + block * kLanes, shown);
    }
  }

  void end_step(int64_t n_running, int64_t token) {
    const int64_t n_projected = layer_.projection_dim;
    const float limit = layer_.projection_clip;
    for (int64_t r = 0; r < n_running; ++r) {
      const float* projected = projected_.get() + r * projected_stride_;
      float* hidden = hidden_row(r);
      for (int64_t p = 0; p < n_projected; ++p) {
        const float upper = projected[p] > limit ? limit : projected[p];
        hidden[p] = upper < -limit ? -limit : upper;
      }
      std::memcpy(pass_.outputs + (token + r) * n_projected, hidden, n_projected * 4);
    }
  }

  const Pass& pass_;
  const Layer& layer_;
  const int64_t first_, n_rows_, hidden_stride_, projected_stride_;
  Scratch hidden_, cell_, exposed_, projected_, gates_;
};

// The same group of rows on its way back: gradients of the gates before their squashing and of the
// projection before its clip, for every token, and of the state.
class Backward {
 public:
  Backward(const Pass& pass, int64_t first, int64_t last)
      : pass_(pass), layer_(pass.layer), first_(first), n_rows_(last - first),
        hidden_stride_(layer_.projection_dim + kGap),
        previous_stride_(round_up(layer_.projection_dim, kPanel) + kGap),
        grad_hidden_(n_rows_ * hidden_stride_), grad_cell_(n_rows_ * layer_.padded_dim()),
        initial_cell_(n_rows_ * layer_.padded_dim()), zeros_(layer_.padded_dim()),
        grad_gates_(n_rows_ * (kDepth + kGap)), grad_exposed_(n_rows_ * kPanel),
        grad_previous_(n_rows_ * previous_stride_), previous_cells_(n_rows_) {}

  void run() {
    const int64_t n_projected = layer_.projection_dim, dim = layer_.dim;
    for (int64_t r = 0; r < n_rows_; ++r) {
      std::memcpy(previous_row(r), pass_.grad_hidden + (first_ + r) * n_projected, n_projected * 4);
      std::memcpy(cell_row(r), pass_.grad_cell + (first_ + r) * dim, dim * 4);
      std::memcpy(initial_row(r), pass_.initial_cell + (first_ + r) * dim, dim * 4);
    }
    int64_t end = 0;
    for (int64_t t = 0; t < pass_.n_steps; ++t) end += pass_.batch_sizes[t];
    for (int64_t t = pass_.n_steps - 1; t >= 0; --t) {
      end -= pass_.batch_sizes[t];
      const int64_t n_running = std::min(pass_.batch_sizes[t] - first_, n_rows_);
      if (n_running > 0) step(n_running, end + first_, t > 0 ? pass_.batch_sizes[t - 1] : 0);
    }
    for (int64_t r = 0; r < n_rows_; ++r) {
      std::memcpy(pass_.grad_hidden + (first_ + r) * n_projected, previous_row(r), n_projected * 4);
      std::memcpy(pass_.grad_cell + (first_ + r) * dim, cell_row(r), dim * 4);
    }
  }

 private:
  float* previous_row(int64_t r) const { return grad_previous_.get() + r * previous_stride_; }
  float* cell_row(int64_t r) const { return grad_cell_.get() + r * layer_.padded_dim(); }
  float* initial_row(int64_t r) const { return initial_cell_.get() + r * layer_.padded_dim(); }

  // `distance` tokens before a token stands the same sentence's token of the step before; 0 at the
  // first step.
  void step(int64_t n_running, int64_t token, int64_t distance) {
    begin_step(n_running, token, distance);
    const Packing packing = layer_.recurrent_transposed_packing();
    constexpr int64_t kPanelsAtOnce = kDepth / (4 * kPanel);
    const int64_t n_panels = layer_.projection_transposed_packing().n_panels();
    for (int64_t first = 0; first < n_panels; first += kPanelsAtOnce) {
      const int64_t last = std::min(first + kPanelsAtOnce, n_panels);
      for (int64_t panel = first; panel < last; ++panel)
        differentiate_units(n_running, token, panel,
                            grad_gates_.get() + (panel - first) * 4 * kPanel);
      const int64_t number = first / kPanelsAtOnce;
      for (int64_t panel = 0; panel < packing.n_panels(); ++panel)
        multiply(n_running, grad_gates_.get(), kDepth + kGap,
                 layer_.recurrent_transposed + packing.offset(number, panel),
                 packing.depth_of(number), grad_previous_.get() + panel * kPanel, previous_stride_,
                 number > 0);
    }
    for (int64_t r = 0; r < n_running; ++r)
      if (pass_.is_reset(token + r)) {
        std::memset(previous_row(r), 0, layer_.projection_dim * 4);
        std::memset(cell_row(r), 0, layer_.padded_dim() * 4);
      }
  }

  void begin_step(int64_t n_running, int64_t token, int64_t distance) {
    const int64_t n_projected = layer_.projection_dim;
    const float limit = layer_.projection_clip;
    for (int64_t r = 0; r < n_running; ++r) {
      const float* grad_output = pass_.grad_outputs + (token + r) * n_projected;
      const float* output = pass_.outputs + (token + r) * n_projected;
      const float* later = previous_row(r);
      float* grad = grad_hidden_.get() + r * hidden_stride_;
      for (int64_t p = 0; p < n_projected; ++p) {
        const float sum = grad_output[p] + later[p];
        grad[p] = output[p] >= limit || output[p] <= -limit ? 0.0f : sum;
      }
      std::memcpy(pass_.grad_projected + (token + r) * n_projected, grad, n_projected * 4);
      previous_cells_[r] = pass_.is_reset(token + r) ? zeros_.get()
                           : distance == 0
                               ? initial_row(r)
                               : pass_.cells + (token + r - distance) * layer_.padded_dim();
    }
  }

  void differentiate_units(int64_t n_running, int64_t token, int64_t panel, float* grad_gates) {
    multiply(n_running, grad_hidden_.get(), hidden_stride_,
             layer_.projection_transposed +
                 layer_.projection_transposed_packing().offset(0, panel),
             layer_.projection_dim, grad_exposed_.get(), kPanel, false);
    const int64_t n_halves = std::min<int64_t>(2, layer_.n_unit_blocks() - 2 * panel);
    for (int64_t r = 0; r < n_running; ++r)
      for (int64_t half = 0; half < n_halves; ++half)
        differentiate_block(r, token + r, 2 * panel + half,
                            load(grad_exposed_.get() + r * kPanel + half * kLanes),
                            grad_gates + r * (kDepth + kGap) + half * 4 * kLanes);
  }

  void differentiate_block(int64_t r, int64_t token, int64_t block, Vector grad_exposed,
                           float* grad_gates) {
    const int64_t at = token * layer_.gates_dim() + block * 4 * kLanes;
    fetch(pass_.gates + at + 8 * kLanes);  // what the next panel of units will ask for
    fetch_to_write(pass_.grad_gates + at + 8 * kLanes);
    __builtin_prefetch(previous_cells_[r] + (block + 2) * kLanes);
    __builtin_prefetch(pass_.cells + token * layer_.padded_dim() + (block + 2) * kLanes);
    const Vector input = load(pass_.gates + at), candidate = load(pass_.gates + at + kLanes);
    const Vector forget = load(pass_.gates + at + 2 * kLanes);
    const Vector output = load(pass_.gates + at + 3 * kLanes);
    const Vector before = load(previous_cells_[r] + block * kLanes);
    const Vector shown = tanh(load(pass_.cells + token * layer_.padded_dim() + block * kLanes));
    float* grad_cell_at = cell_row(r) + block * kLanes;

    Vector grad_cell = load(grad_cell_at) + grad_exposed * output * (1.0f - shown * shown);
    grad_cell = keep_within(grad_cell, forget * before + input * candidate, layer_.cell_clip);
    store(grad_cell_at, grad_cell * forget);
    const Vector grads[4] = {grad_cell * candidate * input * (1.0f - input),
                             grad_cell * input * (1.0f - candidate * candidate),
                             grad_cell * before * forget * (1.0f - forget),
                             grad_exposed * shown * output * (1.0f - output)};
    for (int64_t gate = 0; gate < 4; ++gate) {
      store(grad_gates + gate * kLanes, grads[gate]);
      store(pass_.grad_gates + at + gate * kLanes, grads[gate]);
    }
  }

  const Pass& pass_;
  const Layer& layer_;
  const int64_t first_, n_rows_, hidden_stride_, previous_stride_;
  Scratch grad_hidden_, grad_cell_, initial_cell_, zeros_, grad_gates_, grad_exposed_;
  Scratch grad_previous_;
  std::vector<const float*> previous_cells_;
};

// Cut every direction's rows into groups of about equal numbers of tokens and run them all.
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

extern "C" {

int64_t elmo_lanes() { return kLanes; }

void elmo_packed_sizes(const Layer* layer, int64_t* sizes) {
  sizes[0] = layer->input_packing().size();
  sizes[1] = layer->recurrent_packing().size();
  sizes[2] = layer->projection_packing().size();
  sizes[3] = layer->recurrent_transposed_packing().size();
  sizes[4] = layer->projection_transposed_packing().size();
}

void elmo_pack(const Layer* layers, int64_t n_layers, int64_t n_threads) {
  run_in_parallel(5 * n_layers, n_threads,
                  [&](int64_t task) { pack_layer(layers[task / 5], task % 5); });
}

void elmo_multiply_inputs(const Pass* passes, int64_t n_passes, int64_t n_threads) {
  run_in_parallel(n_passes * n_threads, n_threads, [&](int64_t task) {
    const Pass& pass = passes[task / n_threads];
    const int64_t part = task % n_threads, n_blocks = pass.layer.n_unit_blocks();
    multiply_inputs(pass, part * n_blocks / n_threads, (part + 1) * n_blocks / n_threads);
  });
}

void elmo_run_forward(const Pass* passes, int64_t n_passes, int64_t n_threads) {
  run_groups<Forward>(passes, n_passes, n_threads);
}

void elmo_run_backward(const Pass* passes, int64_t n_passes, int64_t n_threads) {
  run_groups<Backward>(passes, n_passes, n_threads);
}

// grad_from_input[index[n]] += grad_gates[n]; every thread has its own columns, so the order of the
// sum, and with it the result, does not depend on the number of threads.
void elmo_gather_gradients(const Pass* passes, int64_t n_passes, int64_t n_threads) {
  run_in_parallel(n_passes * n_threads, n_threads, [&](int64_t task) {
    const Pass& pass = passes[task / n_threads];
    const int64_t part = task % n_threads, n_blocks = pass.layer.n_unit_blocks();
    const int64_t gates_dim = pass.layer.gates_dim();
    const int64_t first = part * n_blocks / n_threads * 4 * kLanes;
    const int64_t last = (part + 1) * n_blocks / n_threads * 4 * kLanes;
    int64_t n_tokens = 0;
    for (int64_t t = 0; t < pass.n_steps; ++t) n_tokens += pass.batch_sizes[t];
    for (int64_t n = 0; n < n_tokens; ++n) {
      float* to = pass.grad_from_input + pass.index[n] * gates_dim;
      const float* from = pass.grad_gates + n * gates_dim;
      for (int64_t c = first; c < last; c += kLanes) store(to + c, load(to + c) + load(from + c));
    }
  });
}

}  // extern "C"
