// Matrix products with pre-packed weights, used by all kernels.
//
// A product is rows (M, K) times weights (K, N). The weights are packed once into panels of kPanel
// columns, so that the innermost loop reads them sequentially; the rows are not packed.
// A tile of up to kTileRows rows times one panel is held in registers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "amx.h"
#include "parallel.h"

#if defined(__AVX512BF16__) && !defined(LANES)
#include <immintrin.h>
#define MULTIPLIES_BFLOAT16 1
#else
#define MULTIPLIES_BFLOAT16 0
#endif

#if defined(LANES)
constexpr int kLanes = LANES;  // for tests: runs the layouts of other targets on any machine
#elif defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
constexpr int kPanel = 2 * kLanes;
// Two accumulators per row, two registers of weights, one of the row: 6 rows fill 16 registers.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kTileRows = 12;
#else
constexpr int kTileRows = 6;
#endif
// A block of one panel, kDepth x kPanel floats, takes half of a 32 KB first-level cache.
constexpr int64_t kDepth = 256 * 8 / kLanes;
// The stride of our own matrices is a little more than a power of two, so that a tile's rows do
// not compete for the same cache set.
constexpr int64_t kGap = 16;

typedef float Vector __attribute__((vector_size(kLanes * 4)));
typedef float Unaligned __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(kLanes * 4)));

static inline Vector load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
static inline void store(float* to, Vector value) { *reinterpret_cast<Unaligned*>(to) = value; }
static inline Vector splat(float value) { return value - Vector{}; }


// How packed weights are stored. If the processor multiplies bfloat16, rows are rounded to it too,
// and sums are float32. Otherwise bfloat16 weights are converted to float32, but need half the
// memory bandwidth, which is the bottleneck for few rows. (int8 was no faster than that: it took
// longer to unpack than to read.)
enum Format : int64_t { kFloat32, kBfloat16 };

// One panel of a block. For bfloat16 a 32-bit lane holds two weights: if they are multiplied as
// such, those of rows k and k + 1 of a column; otherwise those of columns n and n + kLanes of a
// row, so that a shift and a mask unpack them.
struct Panel {
  const char* stored;
  Format format;
  int64_t row_bytes() const { return format == kFloat32 ? 4 * kPanel : 2 * kPanel; }
};

// The layout of packed weights (K, N): blocks of `block_depth` rows, each divided into panels. With
// `block_depth` >= K, whole panels follow each other. Rows come in pairs: an odd depth has space
// for one more.
struct Packing {
  int64_t depth, n_columns, block_depth;
  int64_t n_panels() const { return (n_columns + kPanel - 1) / kPanel; }
  int64_t size() const { return round_up(depth, 2) * n_panels() * kPanel; }
  int64_t depth_of(int64_t block) const {
    return std::min(block_depth, depth - block * block_depth);
  }
  int64_t offset(int64_t block, int64_t panel) const {
    return (block * block_depth * n_panels() + panel * round_up(depth_of(block), 2)) * kPanel;
  }
};

// Packed weights; mirrored in library.py. If `stored` is null, they are not needed.
struct Packed {
  char* stored;
  Format format;

  bool is_wanted() const { return stored != nullptr; }
  Panel panel(const Packing& packing, int64_t block, int64_t number) const {
    const int64_t n_bytes = format == kFloat32 ? 4 : 2;
    return {stored + packing.offset(block, number) * n_bytes, format};
  }
};
static inline Packed as_packed(float* weights) {
  return {reinterpret_cast<char*>(weights), kFloat32};
}
static inline Panel as_panel(const float* weights) {
  return {reinterpret_cast<const char*>(weights), kFloat32};
}

static inline uint16_t round_to_bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Store the weight in row k of a column of a panel.
static inline void store_weight(const Panel& panel, int64_t k, int64_t column, float value) {
  char* row = const_cast<char*>(panel.stored) + k * panel.row_bytes();
  if (panel.format == kFloat32) {
    reinterpret_cast<float*>(row)[column] = value;
    return;
  }
#if MULTIPLIES_BFLOAT16
  row -= k % 2 * panel.row_bytes();
  reinterpret_cast<uint16_t*>(row)[2 * column + k % 2] = round_to_bfloat16(value);
#else
  reinterpret_cast<uint16_t*>(row)[2 * (column % kLanes) + column / kLanes] =
      round_to_bfloat16(value);
#endif
}

// Load the weight in row k of a column of a panel.
static inline float load_weight(const Panel& panel, int64_t k, int64_t column) {
  const char* row = panel.stored + k * panel.row_bytes();
  if (panel.format == kFloat32) return reinterpret_cast<const float*>(row)[column];
#if MULTIPLIES_BFLOAT16
  row -= k % 2 * panel.row_bytes();
  const int64_t place = 2 * column + k % 2;
#else
  const int64_t place = 2 * (column % kLanes) + column / kLanes;
#endif
  const uint32_t bits = static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(row)[place]) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Store rows k and k + 1 of a panel, the second if there is one; k is even.
static inline void store_pair(const Panel& panel, int64_t k, const float weights[2][kPanel],
                              bool has_second) {
  char* to = const_cast<char*>(panel.stored) + k * panel.row_bytes();
  if (panel.format == kFloat32) {
    std::memcpy(to, weights, (has_second ? 2 : 1) * kPanel * 4);
    return;
  }
#if MULTIPLIES_BFLOAT16
  // Interleaves the second row's lanes with those of the first.
  alignas(64) static constexpr uint16_t kOrder[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  for (int i = 0; i < 2; ++i) {
    const __m512 first = load(weights[0] + i * kLanes), second = load(weights[1] + i * kLanes);
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    const __m512i mixed = _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), both);
    _mm512_storeu_si512(to + 64 * i, mixed);
  }
#else
  for (int i = 0; i < (has_second ? 2 : 1); ++i)
    for (int64_t n = 0; n < kPanel; ++n) store_weight(panel, k + i, n, weights[i][n]);
#endif
}

#if MULTIPLIES_BFLOAT16

static inline void transpose(__m512i rows[16]) {  // 16 x 16 lanes
  __m512i other[16];
  for (int i = 0; i < 16; i += 2) {
    other[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    other[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; ++j) {
      rows[i + 2 * j] = _mm512_unpacklo_epi64(other[i + j], other[i + j + 2]);
      rows[i + 2 * j + 1] = _mm512_unpackhi_epi64(other[i + j], other[i + j + 2]);
    }
  for (int i = 0; i < 16; i += 8)
    for (int j = i; j < i + 4; ++j) {
      other[j] = _mm512_shuffle_i32x4(rows[j], rows[j + 4], 0x88);
      other[j + 4] = _mm512_shuffle_i32x4(rows[j], rows[j + 4], 0xdd);
    }
  for (int j = 0; j < 8; ++j) {
    rows[j] = _mm512_shuffle_i32x4(other[j], other[j + 8], 0x88);
    rows[j + 8] = _mm512_shuffle_i32x4(other[j], other[j + 8], 0xdd);
  }
}

// Load sixteen pairs of floats, rounded to bfloat16; those after the first `n_left` are zero.
static inline __m512i load_pairs(const float* from, int64_t n_left) {
  if (from == nullptr) return _mm512_setzero_si512();
  const uint32_t mask = n_left >= 32 ? ~0u : (1u << n_left) - 1;
  const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
  const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), from + 16);
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

// Pack one panel of bfloat16 weights whose column n is in memory as column(n)[k].
template <typename Column>
static void pack_pairs(const Packing& packing, const Packed& packed, int64_t number,
                       Column column) {
  for (int64_t first = 0; first < packing.depth; first += 32) {
    const int64_t block = first / packing.block_depth, n_left = packing.depth - first;
    const Panel panel = packed.panel(packing, block, number);
    char* to = const_cast<char*>(panel.stored) +
               (first - block * packing.block_depth) * panel.row_bytes();
    for (int64_t half = 0; half < 2; ++half) {
      __m512i pairs[16];
      for (int64_t n = 0; n < kLanes; ++n) {
        const int64_t place = number * kPanel + half * kLanes + n;
        const float* from = place < packing.n_columns ? column(place) : nullptr;
        pairs[n] = load_pairs(from == nullptr ? from : from + first, n_left);
      }
      transpose(pairs);
      for (int64_t pair = 0; pair < std::min<int64_t>(16, (n_left + 1) / 2); ++pair)
        _mm512_storeu_si512(to + pair * 4 * kPanel + half * 64, pairs[pair]);
    }
  }
}

#endif

// Pack weights whose column n is in memory as column(n)[k * stride]; a null column is zero.
template <typename Column>
static void pack(const Packing& packing, const Packed& packed, Column column, int64_t stride = 1,
                 int64_t n_threads = 1) {
  constexpr int64_t kAtOnce = 64;  // rows: read along the columns, written while in the cache
  run_in_parallel(packing.n_panels(), n_threads, [&](int64_t number) {
#if MULTIPLIES_BFLOAT16
    if (packed.format == kBfloat16 && stride == 1)
      return pack_pairs(packing, packed, number, column);
#endif
    for (int64_t first = 0; first < packing.depth; first += kAtOnce) {
      const int64_t block = first / packing.block_depth, depth = packing.depth;
      const int64_t last = packed.format == kFloat32 ? depth : round_up(depth, 2);
      const Panel panel = packed.panel(packing, block, number);
      for (int64_t n = 0; n < kPanel; ++n) {
        const int64_t place = number * kPanel + n;
        const float* from = place < packing.n_columns ? column(place) : nullptr;
        for (int64_t k = first; k < std::min(first + kAtOnce, last); ++k)
          store_weight(panel, k - block * packing.block_depth, n,
                       from == nullptr || k >= depth ? 0.0f : from[k * stride]);
      }
    }
  });
}

// The inverse of `pack`: write column n of packed weights to column(n)[k], unless that is null.
template <typename Column>
static void unpack(const Packing& packing, const Packed& packed, Column column,
                   int64_t n_threads) {
  run_in_parallel(packing.n_panels(), n_threads, [&](int64_t number) {
    const int64_t n_columns = std::min<int64_t>(kPanel, packing.n_columns - number * kPanel);
    for (int64_t n = 0; n < n_columns; ++n) {
      float* to = column(number * kPanel + n);
      if (to == nullptr) continue;
      for (int64_t k = 0; k < packing.depth; ++k) {
        const int64_t block = k / packing.block_depth;
        to[k] = load_weight(packed.panel(packing, block, number), k - block * packing.block_depth,
                            n);
      }
    }
  });
}

// Pack weights whose row k is in memory as row(k)[n].
template <typename Row>
static void pack_rows(const Packing& packing, const Packed& packed, Row row, int64_t n_threads) {
  const int64_t n_pairs = (packing.depth + 1) / 2, n_pairs_at_once = 32;
  run_in_parallel((n_pairs + n_pairs_at_once - 1) / n_pairs_at_once, n_threads, [&](int64_t task) {
    const int64_t last = std::min(n_pairs, (task + 1) * n_pairs_at_once);
    for (int64_t pair = task * n_pairs_at_once; pair < last; ++pair) {
      const int64_t k = 2 * pair, block = k / packing.block_depth;
      const float* from[2] = {row(k), k + 1 < packing.depth ? row(k + 1) : nullptr};
      for (int64_t number = 0; number < packing.n_panels(); ++number) {
        alignas(64) float weights[2][kPanel] = {};
        const int64_t n_left = std::min<int64_t>(kPanel, packing.n_columns - number * kPanel);
        for (int i = 0; i < 2; ++i)
          if (from[i] != nullptr) std::memcpy(weights[i], from[i] + number * kPanel, n_left * 4);
        store_pair(packed.panel(packing, block, number), k - block * packing.block_depth, weights,
                   k + 1 < packing.depth);
      }
    }
  });
}

// The weights of row k of a panel, left and right column vector.
struct Pair {
  Vector left, right;
};

template <Format kFormat>
static inline Pair load_weights(const char* stored, int64_t k) {
  const float* lanes = reinterpret_cast<const float*>(stored);
  if constexpr (kFormat == kFloat32)
    return {load(lanes + k * kPanel), load(lanes + k * kPanel + kLanes)};
  const Integers bits = (Integers)load(lanes + k * kLanes);
  return {(Vector)(bits << 16), (Vector)(bits & static_cast<int32_t>(0xffff0000))};
}

// The operands of a tile's product.
struct Tile {
  const float* rows;
  int64_t row_stride;
  Panel panel;
  int64_t depth;
  float* out;
  int64_t out_stride;
  bool adds;
  const char* next;  // weights to prefetch meanwhile, `next_step` bytes per row of weights
  int64_t next_step;
};

// out (kRows, kPanel) = or += rows (kRows, depth) x panel (depth, kPanel).
// Few rows need few accumulators, so the depth is distributed over `kWays` sets of them: the
// processor needs about eight independent sums to be busy.
template <int kRows, Format kFormat>
static void multiply_tile(const Tile& tile) {
  constexpr int kWays = kRows == 1 ? 4 : kRows <= 3 ? 2 : 1;
  const int64_t row_stride = tile.row_stride, depth = tile.depth, next_step = tile.next_step;
  const float* rows = tile.rows;
  const char *stored = tile.panel.stored, *next = tile.next;
  Vector sums[kWays][kRows][2] = {};
  int64_t k = 0;
  for (; k + kWays <= depth; k += kWays) {
#pragma GCC unroll 4
    for (int way = 0; way < kWays; ++way) {
      __builtin_prefetch(next + (k + way) * next_step, 0, 2);
      const Pair weights = load_weights<kFormat>(stored, k + way);
#pragma GCC unroll 12
      for (int row = 0; row < kRows; ++row) {
        const Vector value = splat(rows[row * row_stride + k + way]);
        sums[way][row][0] += value * weights.left;
        sums[way][row][1] += value * weights.right;
      }
    }
  }
  for (; k < depth; ++k) {
    const Pair weights = load_weights<kFormat>(stored, k);
    for (int row = 0; row < kRows; ++row) {
      sums[0][row][0] += splat(rows[row * row_stride + k]) * weights.left;
      sums[0][row][1] += splat(rows[row * row_stride + k]) * weights.right;
    }
  }
#pragma GCC unroll 12
  for (int row = 0; row < kRows; ++row)
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      float* to = tile.out + row * tile.out_stride + half * kLanes;
      Vector sum = sums[0][row][half];
      for (int way = 1; way < kWays; ++way) sum += sums[way][row][half];
      store(to, tile.adds ? load(to) + sum : sum);
    }
}

typedef void (*TileProduct)(const Tile&);

// multiply_tile for `n_rows` rows, 1 to kTileRows.
template <Format kFormat, int... kRows>
static TileProduct tile_product(int64_t n_rows, std::integer_sequence<int, kRows...>) {
  static constexpr TileProduct products[] = {multiply_tile<kRows + 1, kFormat>...};
  return products[n_rows - 1];
}
template <Format kFormat>
static TileProduct tile_product(int64_t n_rows) {
  return tile_product<kFormat>(n_rows, std::make_integer_sequence<int, kTileRows>());
}

#if MULTIPLIES_BFLOAT16

// Round rows to bfloat16, two neighbors in each 32-bit lane; an odd depth is padded with zero.
static void round_rows(int64_t n_rows, const float* rows, int64_t row_stride, int64_t depth,
                       uint32_t* pairs, int64_t pair_stride) {
  for (int64_t row = 0; row < n_rows; ++row, rows += row_stride, pairs += pair_stride)
    for (int64_t k = 0; k < depth; k += 32)
      _mm512_storeu_si512(pairs + k / 2, load_pairs(rows + k, depth - k));
}

// Like multiply_tile, with two rows of weights at a time.
template <int kRows>
static void multiply_rounded_tile(const Tile& tile, const uint32_t* pairs, int64_t pair_stride) {
  constexpr int kWays = kRows == 1 ? 4 : kRows <= 3 ? 2 : 1;
  const int64_t n_pairs = (tile.depth + 1) / 2, next_step = tile.next_step;
  const char *stored = tile.panel.stored, *next = tile.next;
  __m512 sums[kWays][kRows][2] = {};
  const auto add = [&](int64_t pair, int way) {
    const __m512bh left = (__m512bh)_mm512_loadu_si512(stored + pair * 4 * kPanel);
    const __m512bh right = (__m512bh)_mm512_loadu_si512(stored + pair * 4 * kPanel + 64);
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row) {
      const __m512bh value =
          (__m512bh)_mm512_set1_epi32(static_cast<int32_t>(pairs[row * pair_stride + pair]));
      sums[way][row][0] = _mm512_dpbf16_ps(sums[way][row][0], left, value);
      sums[way][row][1] = _mm512_dpbf16_ps(sums[way][row][1], right, value);
    }
  };
  int64_t pair = 0;
  for (; pair + kWays <= n_pairs; pair += kWays) {
#pragma GCC unroll 4
    for (int way = 0; way < kWays; ++way) {
      __builtin_prefetch(next + 2 * (pair + way) * next_step, 0, 2);
      add(pair + way, way);
    }
  }
  for (; pair < n_pairs; ++pair) add(pair, 0);
#pragma GCC unroll 12
  for (int row = 0; row < kRows; ++row)
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      float* to = tile.out + row * tile.out_stride + half * kLanes;
      Vector sum = sums[0][row][half];
      for (int way = 1; way < kWays; ++way) sum += sums[way][row][half];
      store(to, tile.adds ? load(to) + sum : sum);
    }
}

typedef void (*RoundedTileProduct)(const Tile&, const uint32_t*, int64_t);

template <int... kRows>
static RoundedTileProduct rounded_tile_product(int64_t n_rows,
                                               std::integer_sequence<int, kRows...>) {
  static constexpr RoundedTileProduct products[] = {multiply_rounded_tile<kRows + 1>...};
  return products[n_rows - 1];
}

// A tile's product in bfloat16; `pairs` are its rounded rows, or null if not rounded yet.
static void multiply_rounded(const Tile& tile, int64_t n_rows, const uint32_t* pairs,
                             int64_t pair_stride) {
  constexpr int64_t kPairStride = kDepth / 2 + kGap;
  alignas(64) uint32_t own[kTileRows * kPairStride];
  if (pairs == nullptr) {
    round_rows(n_rows, tile.rows, tile.row_stride, tile.depth, own, kPairStride);
    pairs = own;
    pair_stride = kPairStride;
  }
  const auto rows = std::make_integer_sequence<int, kTileRows>();
  rounded_tile_product(n_rows, rows)(tile, pairs, pair_stride);
}

#endif

#if MAY_HAVE_AMX
static_assert(kAmxPanel == kPanel);
constexpr int64_t kMinAmxRows = 4;  // with fewer, AVX512-BF16 is faster
#endif

// Rows of a product, and the same rounded to pairs of bfloat16, or null if not rounded yet.
struct Operand {
  const float* rows;
  int64_t row_stride;
  const uint32_t* pairs = nullptr;
  int64_t pair_stride = 0;
};

// A buffer for rows that are multiplied with several panels of the same weights: if the product is
// computed in bfloat16, they are rounded once for all panels.
class RoundedRows {
 public:
  RoundedRows(int64_t n_rows, int64_t depth, const Packed& weights)
      : is_wanted_(MULTIPLIES_BFLOAT16 && weights.format == kBfloat16),
        stride_(round_up(depth, 32) / 2 + kGap), room_(is_wanted_ ? n_rows * stride_ : 0) {}

  Operand of(int64_t n_rows, const float* rows, int64_t row_stride, int64_t depth) const {
#if MULTIPLIES_BFLOAT16
    if (is_wanted_) {
      uint32_t* pairs = reinterpret_cast<uint32_t*>(room_.get());
      round_rows(n_rows, rows, row_stride, depth, pairs, stride_);
      return {rows, row_stride, pairs, stride_};
    }
#endif
    return {rows, row_stride};
  }

 private:
  const bool is_wanted_;
  const int64_t stride_;
  Scratch room_;
};

static void expand(const Panel& panel, int64_t depth, float* weights) {
  for (int64_t k = 0; k < depth; ++k, weights += kPanel) {
    const Pair row = load_weights<kBfloat16>(panel.stored, k);
    store(weights, row.left);
    store(weights + kLanes, row.right);
  }
}

// out (n_rows, kPanel) = or += rows (n_rows, depth) x one panel. The rows are distributed
// evenly over tiles; meanwhile the weights that follow in memory, the next block's, are prefetched.
static void multiply(int64_t n_rows, const Operand& operand, Panel panel, int64_t depth, float* out,
                     int64_t out_stride, bool adds) {
  const int64_t n_tiles = (n_rows + kTileRows - 1) / kTileRows;
  if (n_tiles == 0) return;
#if MAY_HAVE_AMX
  if (panel.format == kBfloat16 && operand.pairs != nullptr && n_rows >= kMinAmxRows && has_amx())
    return multiply_amx(n_rows, operand.pairs, operand.pair_stride, panel.stored, (depth + 1) / 2,
                        out, out_stride, adds);
#endif
  for (int64_t first = 0; first < depth; first += kDepth, adds = true) {
    const int64_t block_depth = std::min(kDepth, depth - first);
    Tile tile{operand.rows + first, operand.row_stride, panel, block_depth, out, out_stride, adds,
              panel.stored + block_depth * panel.row_bytes(), panel.row_bytes() / n_tiles};
    panel.stored = tile.next;
    const bool is_rounded = MULTIPLIES_BFLOAT16 && panel.format == kBfloat16;
    if (panel.format == kBfloat16 && !is_rounded && n_tiles == 1) {
      tile_product<kBfloat16>(n_rows)(tile);
      continue;
    }
    alignas(64) float expanded[MULTIPLIES_BFLOAT16 ? 1 : kDepth * kPanel];
    if (panel.format == kBfloat16 && !is_rounded) {  // once for all tiles
      expand(tile.panel, block_depth, expanded);
      tile.panel = as_panel(expanded);
    }
    for (int64_t number = 0, row = 0; number < n_tiles; ++number) {
      const int64_t end = (number + 1) * n_rows / n_tiles;
#if MULTIPLIES_BFLOAT16
      const uint32_t* pairs = operand.pairs;
      if (pairs != nullptr) pairs += row * operand.pair_stride + first / 2;
      if (is_rounded)
        multiply_rounded(tile, end - row, pairs, operand.pair_stride);
      else
#endif
        tile_product<kFloat32>(end - row)(tile);
      tile.rows += (end - row) * operand.row_stride;
      tile.out += (end - row) * out_stride;
      tile.next += block_depth * tile.next_step;
      row = end;
    }
  }
}

static inline void multiply(int64_t n_rows, const float* rows, int64_t row_stride, Panel panel,
                            int64_t depth, float* out, int64_t out_stride, bool adds) {
  multiply(n_rows, Operand{rows, row_stride}, panel, depth, out, out_stride, adds);
}
