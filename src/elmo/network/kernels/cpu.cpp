// What this build and the processor support.
#include "matrix.h"

extern "C" {

int64_t elmo_lanes() { return kLanes; }

int64_t elmo_multiplies_bfloat16() { return MULTIPLIES_BFLOAT16; }

// The highest of the x86-64 levels 2, 3 and 4 that this processor supports; 5 is level 4 with
// bfloat16 products. 0 for other processors, which have one build.
int64_t elmo_cpu_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi2"))
    return 2;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl"))
    return 3;
  return __builtin_cpu_supports("avx512bf16") ? 5 : 4;
#else
  return 0;
#endif
}

}  // extern "C"
