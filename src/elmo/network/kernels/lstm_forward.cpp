// The forward pass of a layer: pack the weights, multiply the inputs, then run the steps.
#include "lstm.h"

static void pack_layer(const Layer& layer, int64_t n_threads) {
  // Row of the weight, or null for a padded unit.
  const auto gate = [&](const float* weight, int64_t column, int64_t depth) {
    const int64_t row = weight_row(layer, column);
    return row < 0 ? nullptr : weight + row * depth;
  };
  const int64_t n_inputs = layer.input_dim, n_projected = layer.projection_dim;
  const auto input = [&](int64_t n) { return gate(layer.input_weight, n, n_inputs); };
  const auto recurrent = [&](int64_t n) { return gate(layer.recurrent_weight, n, n_projected); };
  const auto projection = [&](int64_t n) { return layer.projection_weight + n * layer.dim; };
  if (layer.input.is_wanted()) pack(layer.input_packing(), layer.input, input, 1, n_threads);
  if (layer.recurrent.is_wanted())
    pack(layer.recurrent_packing(), layer.recurrent, recurrent, 1, n_threads);
  if (layer.projection.is_wanted())
    pack(layer.projection_packing(), layer.projection, projection, 1, n_threads);
  if (layer.recurrent_transposed.is_wanted())
    pack_rows(layer.recurrent_transposed_packing(), layer.recurrent_transposed, recurrent,
              n_threads);
  if (layer.projection_transposed.is_wanted())
    pack_rows(layer.projection_transposed_packing(), layer.projection_transposed, projection,
              n_threads);
}

// The inverse: write the packed weights to the layer's plain weights.
static void unpack_layer(const Layer& layer, int64_t n_threads) {
  const auto gate = [&](const float* weight, int64_t column, int64_t depth) -> float* {
    const int64_t row = weight_row(layer, column);
    return row < 0 ? nullptr : const_cast<float*>(weight) + row * depth;
  };
  unpack(layer.input_packing(), layer.input,
         [&](int64_t n) { return gate(layer.input_weight, n, layer.input_dim); }, n_threads);
  unpack(layer.recurrent_packing(), layer.recurrent,
         [&](int64_t n) { return gate(layer.recurrent_weight, n, layer.projection_dim); },
         n_threads);
  unpack(layer.projection_packing(), layer.projection,
         [&](int64_t n) { return const_cast<float*>(layer.projection_weight) + n * layer.dim; },
         n_threads);
}

// Input product of the unit blocks [first, last): from_input = rows x weights + bias.
static void multiply_inputs(const Pass& pass, int64_t first, int64_t last) {
  const Layer& layer = pass.layer;
  constexpr int64_t kRowsAtOnce = 20 * kTileRows;
  const Packing packing = layer.input_packing();
  Scratch sums(kRowsAtOnce * 2 * kPanel);
  const RoundedRows rounded(kRowsAtOnce, layer.input_dim, layer.input);
  for (int64_t row = 0; row < pass.n_rows; row += kRowsAtOnce) {
    const int64_t n_rows = std::min(kRowsAtOnce, pass.n_rows - row);
    const Operand rows =
        rounded.of(n_rows, pass.rows + row * layer.input_dim, layer.input_dim, layer.input_dim);
    for (int64_t block = first; block < last; ++block) {
      for (int64_t half = 0; half < 2; ++half)
        multiply(n_rows, rows, layer.input.panel(packing, 0, 2 * block + half), layer.input_dim,
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

// The forward pass of one group of rows.
class Forward {
 public:
  Forward(const Pass& pass, int64_t first, int64_t last)
      : pass_(pass), layer_(pass.layer), first_(first), n_rows_(last - first),
        hidden_stride_(layer_.projection_dim + kGap),
        projected_stride_(round_up(layer_.projection_dim, kPanel) + kGap),
        hidden_(n_rows_ * hidden_stride_), cell_(n_rows_ * layer_.padded_dim()),
        exposed_(n_rows_ * (kDepth + kGap)), projected_(n_rows_ * projected_stride_),
        gates_(n_rows_ * 4 * kLanes),
        rounded_hidden_(n_rows_, layer_.projection_dim, layer_.recurrent),
        rounded_exposed_(n_rows_, kDepth, layer_.projection) {}

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
    const Operand hidden =
        rounded_hidden_.of(n_running, hidden_.get(), hidden_stride_, layer_.projection_dim);
    const Packing packing = layer_.projection_packing();
    constexpr int64_t kBlocksAtOnce = kDepth / kLanes;
    for (int64_t first = 0; first < layer_.n_unit_blocks(); first += kBlocksAtOnce) {
      const int64_t last = std::min(first + kBlocksAtOnce, layer_.n_unit_blocks());
      for (int64_t block = first; block < last; ++block)
        compute_units(n_running, hidden, token, block, exposed_.get() + (block - first) * kLanes);
      // The units just computed are projected while they are in the cache.
      const int64_t number = first / kBlocksAtOnce, depth = packing.depth_of(number);
      const Operand exposed = rounded_exposed_.of(n_running, exposed_.get(), kDepth + kGap, depth);
      for (int64_t panel = 0; panel < packing.n_panels(); ++panel)
        multiply(n_running, exposed, layer_.projection.panel(packing, number, panel), depth,
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

  void compute_units(int64_t n_running, const Operand& hidden, int64_t token, int64_t block,
                     float* exposed) {
    const Packing packing = layer_.recurrent_packing();
    for (int64_t half = 0; half < 2; ++half)
      multiply(n_running, hidden, layer_.recurrent.panel(packing, 0, 2 * block + half),
               layer_.projection_dim, gates_.get() + half * kPanel, 2 * kPanel, false);
    const int64_t gates_dim = layer_.gates_dim(), padded_dim = layer_.padded_dim();
    for (int64_t r = 0; r < n_running; ++r) {
      const float* sums = gates_.get() + r * 4 * kLanes;
      const float* inputs =
          pass_.from_input + pass_.row_of(token + r) * gates_dim + block * 4 * kLanes;
      float* cell_at = cell_row(r) + block * kLanes;
      fetch(inputs + 4 * kLanes);  // needed by the next block of units
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
  const RoundedRows rounded_hidden_, rounded_exposed_;
};

extern "C" {

void elmo_packed_sizes(const Layer* layer, int64_t* sizes) {
  sizes[0] = layer->input_packing().size();
  sizes[1] = layer->recurrent_packing().size();
  sizes[2] = layer->projection_packing().size();
  sizes[3] = layer->recurrent_transposed_packing().size();
  sizes[4] = layer->projection_transposed_packing().size();
}

int64_t elmo_pack(const Layer* layers, int64_t n_layers, int64_t n_threads) {
  return guarded([&] {
    for (int64_t number = 0; number < n_layers; ++number) pack_layer(layers[number], n_threads);
  });
}

int64_t elmo_unpack(const Layer* layers, int64_t n_layers, int64_t n_threads) {
  return guarded([&] {
    for (int64_t number = 0; number < n_layers; ++number) unpack_layer(layers[number], n_threads);
  });
}

int64_t elmo_multiply_inputs(const Pass* passes, int64_t n_passes, int64_t n_threads) {
  return guarded([&] {
    run_in_parallel(n_passes * n_threads, n_threads, [&](int64_t task) {
      const Pass& pass = passes[task / n_threads];
      const int64_t part = task % n_threads, n_blocks = pass.layer.n_unit_blocks();
      multiply_inputs(pass, part * n_blocks / n_threads, (part + 1) * n_blocks / n_threads);
    });
  });
}

int64_t elmo_run_forward(const Pass* passes, int64_t n_passes, int64_t n_threads) {
  return guarded([&] {
    run_groups<Forward>(passes, n_passes, n_threads);
  });
}

}  // extern "C"
