// The backward pass of a layer through its steps.
#include "lstm.h"

static inline Vector keep_within(Vector gradient, Vector x, float limit) {
  const Vector bound = splat(limit), zero = splat(0.0f);
  gradient = x > bound ? zero : gradient;
  return x < -bound ? zero : gradient;
}

// The backward pass of one group of rows: gradients of the gates before their activation and of the
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
        grad_previous_(n_rows_ * previous_stride_), previous_cells_(n_rows_),
        rounded_hidden_(n_rows_, layer_.projection_dim, layer_.projection_transposed),
        rounded_gates_(n_rows_, kDepth, layer_.recurrent_transposed) {}

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

  // The token of the same sentence in the previous step is `distance` tokens earlier; `distance` is
  // 0 at the first step.
  void step(int64_t n_running, int64_t token, int64_t distance) {
    begin_step(n_running, token, distance);
    const Operand grad_hidden =
        rounded_hidden_.of(n_running, grad_hidden_.get(), hidden_stride_, layer_.projection_dim);
    const Packing packing = layer_.recurrent_transposed_packing();
    constexpr int64_t kPanelsAtOnce = kDepth / (4 * kPanel);
    const int64_t n_panels = layer_.projection_transposed_packing().n_panels();
    for (int64_t first = 0; first < n_panels; first += kPanelsAtOnce) {
      const int64_t last = std::min(first + kPanelsAtOnce, n_panels);
      for (int64_t panel = first; panel < last; ++panel)
        differentiate_units(n_running, grad_hidden, token, panel,
                            grad_gates_.get() + (panel - first) * 4 * kPanel);
      const int64_t number = first / kPanelsAtOnce, depth = packing.depth_of(number);
      const Operand gates = rounded_gates_.of(n_running, grad_gates_.get(), kDepth + kGap, depth);
      for (int64_t panel = 0; panel < packing.n_panels(); ++panel)
        multiply(n_running, gates, layer_.recurrent_transposed.panel(packing, number, panel),
                 depth, grad_previous_.get() + panel * kPanel, previous_stride_, number > 0);
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

  void differentiate_units(int64_t n_running, const Operand& grad_hidden, int64_t token,
                           int64_t panel, float* grad_gates) {
    multiply(n_running, grad_hidden,
             layer_.projection_transposed.panel(layer_.projection_transposed_packing(), 0, panel),
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
    fetch(pass_.gates + at + 8 * kLanes);  // needed by the next panel of units
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
  const RoundedRows rounded_hidden_, rounded_gates_;
};

extern "C" {

int64_t elmo_run_backward(const Pass* passes, int64_t n_passes, int64_t n_threads) {
  return guarded([&] {
    run_groups<Backward>(passes, n_passes, n_threads);
  });
}

// grad_from_input[index[n]] += grad_gates[n]; every thread has its own columns, so the order of the
// sum, and with it the result, does not depend on the number of threads.
int64_t elmo_gather_gradients(const Pass* passes, int64_t n_passes, int64_t n_threads) {
  return guarded([&] {
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
  });
}

}  // extern "C"
