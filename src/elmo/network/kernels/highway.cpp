// A highway layer: a gated mixture of the input and its rectified transform. Both products are
// computed together over packed weights and mixed while they are in the cache. A task is a block of
// rows times a group of panels, so that even few rows keep all threads busy.
#include "matrix.h"
#include "pointwise.h"

// The structure and its fields are mirrored in library.py.
struct Highway {
  int64_t n_rows, row_stride, dim;
  const float *rows, *weight, *bias, *gate_weight, *gate_bias;  // weights (dim, dim)
  Packed packed;
  float* out;  // (n_rows, dim)

  // Panels are in pairs: gate, then transform, of the same outputs.
  Packing packing() const { return {dim, 2 * round_up(dim, kPanel), kDepth}; }
};

// The address of the weights of packed column n, or null for a padded one.
static const float* column(const Highway& highway, int64_t n) {
  const int64_t output = n / (2 * kPanel) * kPanel + n % kPanel;
  const bool is_gate = n / kPanel % 2 == 0;
  if (output >= highway.dim) return nullptr;
  return (is_gate ? highway.gate_weight : highway.weight) + output * highway.dim;
}

constexpr int64_t kHighwayRows = 20 * kTileRows;  // of kDepth columns: a quarter of a 512 KB cache
constexpr int64_t kHighwayPanels = 4;

// One panel of outputs of one row, from its gate's and its transform's products.
static void mix(const Highway& highway, int64_t row, int64_t first, const float* sums) {
  const int64_t n_outputs = std::min<int64_t>(kPanel, highway.dim - first);
  float gate_bias[kPanel] = {}, bias[kPanel] = {}, input[kPanel] = {}, mixed[kPanel];
  std::memcpy(gate_bias, highway.gate_bias + first, n_outputs * 4);
  std::memcpy(bias, highway.bias + first, n_outputs * 4);
  std::memcpy(input, highway.rows + row * highway.row_stride + first, n_outputs * 4);
  for (int64_t i = 0; i < kPanel; i += kLanes) {
    const Vector gate = sigmoid(load(sums + i) + load(gate_bias + i));
    const Vector sum = load(sums + kPanel + i) + load(bias + i);
    const Vector transformed = sum < splat(0.0f) ? splat(0.0f) : sum;
    store(mixed + i, load(input + i) + gate * (transformed - load(input + i)));
  }
  std::memcpy(highway.out + row * highway.dim + first, mixed, n_outputs * 4);
}

static void run_highway(const Highway& highway, int64_t first_row, int64_t first_panel) {
  const Packing packing = highway.packing();
  const int64_t n_rows = std::min(kHighwayRows, highway.n_rows - first_row);
  const int64_t n_panels = std::min(kHighwayPanels, packing.n_panels() - first_panel);
  constexpr int64_t kStride = kHighwayPanels * kPanel;
  Scratch sums(n_rows * kStride);
  const RoundedRows rounded(n_rows, kDepth, highway.packed);
  for (int64_t block = 0; block * kDepth < highway.dim; ++block) {
    const float* from = highway.rows + first_row * highway.row_stride + block * kDepth;
    const int64_t depth = packing.depth_of(block);
    const Operand rows = rounded.of(n_rows, from, highway.row_stride, depth);
    for (int64_t panel = 0; panel < n_panels; ++panel)
      multiply(n_rows, rows, highway.packed.panel(packing, block, first_panel + panel), depth,
               sums.get() + panel * kPanel, kStride, block > 0);
  }
  for (int64_t row = 0; row < n_rows; ++row)
    for (int64_t panel = 0; panel < n_panels; panel += 2)
      mix(highway, first_row + row, (first_panel + panel) / 2 * kPanel,
          sums.get() + row * kStride + panel * kPanel);
}

extern "C" {

int64_t elmo_packed_highway_size(const Highway* highway) { return highway->packing().size(); }

int64_t elmo_pack_highway(const Highway* highway, int64_t, int64_t n_threads) {
  return guarded([&] {
    pack(highway->packing(), highway->packed, [&](int64_t n) { return column(*highway, n); }, 1,
         n_threads);
  });
}

int64_t elmo_unpack_highway(const Highway* highway, int64_t, int64_t n_threads) {
  return guarded([&] {
    unpack(highway->packing(), highway->packed,
           [&](int64_t n) { return const_cast<float*>(column(*highway, n)); }, n_threads);
  });
}

int64_t elmo_run_highway(const Highway* highway, int64_t, int64_t n_threads) {
  return guarded([&] {
    const int64_t n_groups = round_up(highway->packing().n_panels(), kHighwayPanels) / kHighwayPanels;
    const int64_t n_chunks = round_up(highway->n_rows, kHighwayRows) / kHighwayRows;
    run_in_parallel(n_groups * n_chunks, n_threads, [&](int64_t task) {
      run_highway(*highway, task / n_groups * kHighwayRows, task % n_groups * kHighwayPanels);
    });
  });
}

}  // extern "C"
