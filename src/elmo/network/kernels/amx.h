// Matrix products in bfloat16 by AMX (Sapphire Rapids and later), about ten times as fast as
// AVX512-BF16 for 32 rows. Used by matrix.h, whose packed weights have the layout that AMX reads.
//
// A tile register holds up to 16 rows of 64 bytes: 16 float32 sums or 16 pairs of bfloat16. Eight
// registers hold the sums of 2 x 2 tiles, two tiles of rows and two of weights.
#pragma once

#include <algorithm>
#include <cstdint>

// Defining NO_AMX or LANES disables it, for tests of other processors' code.
#if defined(__AVX512BF16__) && defined(__linux__) && !defined(NO_AMX) && !defined(LANES) && \
    (__has_include(<amxtileintrin.h>) || __has_include(<amxintrin.h>))
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define MAY_HAVE_AMX 1
#else
#define MAY_HAVE_AMX 0
#endif

#if MAY_HAVE_AMX
#define USES_AMX __attribute__((target("amx-tile,amx-bf16")))

constexpr int64_t kAmxRows = 16;   // rows of a tile
constexpr int64_t kAmxPairs = 16;  // pairs of bfloat16 in a row of a tile, and rows of weights
constexpr int64_t kAmxPanel = 32;  // columns of two tiles of weights: a panel of matrix.h

// Whether the processor has AMX with bfloat16 and Linux lets this process use it. It gives the
// permission to all threads of a process, but only on request.
static bool request_amx() {
  unsigned int a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned int kNeeded = 1u << 22 | 1u << 24;  // amx-bf16, amx-tile
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return (d & kNeeded) == kNeeded && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
static bool has_amx() {
  static const bool found = request_amx();
  return found;
}

// GCC's intrinsics do not say that they read memory: what was written before must be complete.
static inline void finish_writes() { __asm__ volatile("" ::: "memory"); }

// Sums 0 and 1 (first tile of rows), 2 and 3 (second), rows 4 and 5, weights 6 and 7.
struct AmxShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t n_rows[16] = {};

  AmxShapes(int64_t n_first, int64_t n_second, int64_t n_pairs) {
    for (int tile = 0; tile < 8; ++tile) {
      const bool is_second = tile == 2 || tile == 3 || tile == 5;
      n_rows[tile] = static_cast<uint8_t>(tile >= 6 ? n_pairs : is_second ? n_second : n_first);
      row_bytes[tile] = static_cast<uint16_t>(tile == 4 || tile == 5 ? 4 * n_pairs : 64);
      if (n_rows[tile] == 0) row_bytes[tile] = 0;
    }
  }
};

// The operands of a product of up to 32 rows with `n_steps` x `kAmxPairs` pairs of weights.
struct AmxTile {
  const uint32_t* pairs;
  int64_t pair_stride, n_steps;
  const char* stored;  // a panel: rows of `kAmxPanel` pairs
  float* out;
  int64_t out_stride;
  bool adds;
  const char* next;  // weights to prefetch meanwhile, `n_lines` cache lines per step
  int64_t n_lines;
};

template <bool kHasSecond>
USES_AMX static void multiply_amx_tile(const AmxTile& tile) {
  constexpr int64_t kPairBytes = 4 * kAmxPanel, kStepBytes = kAmxPairs * kPairBytes;
  const int64_t row_bytes = 4 * tile.pair_stride, out_bytes = 4 * tile.out_stride;
  const uint32_t *first = tile.pairs, *second = first + kAmxRows * tile.pair_stride;
  float *out = tile.out, *second_out = out + kAmxRows * tile.out_stride;
  if (tile.adds) {
    _tile_loadd(0, out, out_bytes);
    _tile_loadd(1, out + 16, out_bytes);
    if (kHasSecond) {
      _tile_loadd(2, second_out, out_bytes);
      _tile_loadd(3, second_out + 16, out_bytes);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    if (kHasSecond) {
      _tile_zero(2);
      _tile_zero(3);
    }
  }
  const char *stored = tile.stored, *next = tile.next;
  for (int64_t step = 0; step < tile.n_steps; ++step) {
    for (int64_t line = 0; line < tile.n_lines; ++line) __builtin_prefetch(next + 64 * line, 0, 2);
    _tile_loadd(6, stored, kPairBytes);
    _tile_loadd(4, first, row_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, stored + 64, kPairBytes);
    _tile_dpbf16ps(1, 4, 7);
    if (kHasSecond) {
      _tile_loadd(5, second, row_bytes);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    stored += kStepBytes;
    first += kAmxPairs;
    second += kAmxPairs;
    next += 64 * tile.n_lines;
  }
  _tile_stored(0, out, out_bytes);
  _tile_stored(1, out + 16, out_bytes);
  if (kHasSecond) {
    _tile_stored(2, second_out, out_bytes);
    _tile_stored(3, second_out + 16, out_bytes);
  }
}

// out (n_rows, kAmxPanel) = or += rows (n_rows, 2 * n_pairs) x one panel.
USES_AMX static void multiply_amx(int64_t n_rows, const uint32_t* pairs, int64_t pair_stride,
                                  const char* stored, int64_t n_pairs, float* out,
                                  int64_t out_stride, bool adds) {
  constexpr int64_t kLinesPerStep = kAmxPairs * kAmxPanel * 4 / 64;
  constexpr int64_t kRowsAtOnce = 2 * kAmxRows;
  const int64_t n_blocks = (n_rows + kRowsAtOnce - 1) / kRowsAtOnce;
  const char* after = stored + n_pairs * kAmxPanel * 4;
  // Whole tiles of weights first, then what is left of the depth.
  for (int64_t done = 0; done < n_pairs; adds = true) {
    const int64_t at_once = std::min(n_pairs - done, kAmxPairs);
    const int64_t n_steps = (n_pairs - done) / at_once;
    const int64_t n_lines = done == 0 ? kLinesPerStep / n_blocks : 0;
    int64_t configured = 0;
    for (int64_t block = 0; block < n_blocks; ++block) {
      const int64_t row = block * kRowsAtOnce, n_here = std::min(n_rows - row, kRowsAtOnce);
      if (n_here != configured) {
        const AmxShapes shapes(std::min(n_here, kAmxRows), std::max<int64_t>(n_here - kAmxRows, 0),
                               at_once);
        finish_writes();
        _tile_loadconfig(&shapes);
        configured = n_here;
      }
      const AmxTile tile{pairs + row * pair_stride + done, pair_stride, n_steps,
                         stored + done * kAmxPanel * 4, out + row * out_stride, out_stride, adds,
                         after + block * n_steps * n_lines * 64, n_lines};
      if (n_here > kAmxRows)
        multiply_amx_tile<true>(tile);
      else
        multiply_amx_tile<false>(tile);
    }
    done += at_once * n_steps;
  }
  _tile_release();
}
#endif
