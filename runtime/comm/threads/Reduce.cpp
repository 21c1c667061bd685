//===- Reduce.cpp - choosing the reduction loops --------------------------===//
//
// The widest instruction set that the CPU has.
//
//===----------------------------------------------------------------------===//
#include "Reduce.h"

using namespace kerf::rt;

namespace kerf::rt {
ReduceFn reduceTableBase(kerf_dtype_t dtype, Reduction reduction);
#ifdef KERF_HAVE_X86_LEVELS
ReduceFn reduceTableAvx2(kerf_dtype_t dtype, Reduction reduction);
ReduceFn reduceTableAvx512(kerf_dtype_t dtype, Reduction reduction);
#endif
} // namespace kerf::rt

ReduceFn kerf::rt::reduceFunction(kerf_dtype_t dtype, Reduction reduction,
                                  ReduceLevel level) {
#ifdef KERF_HAVE_X86_LEVELS
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("f16c");
  if (level == ReduceLevel::Avx512)
    return avx2 && __builtin_cpu_supports("avx512f") &&
                   __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512dq")
               ? reduceTableAvx512(dtype, reduction)
               : nullptr;
  if (level == ReduceLevel::Avx2)
    return avx2 ? reduceTableAvx2(dtype, reduction) : nullptr;
#endif
  return level == ReduceLevel::Base ? reduceTableBase(dtype, reduction)
                                    : nullptr;
}

ReduceFn kerf::rt::reduceFunction(kerf_dtype_t dtype, Reduction reduction) {
  for (ReduceLevel level : {ReduceLevel::Avx512, ReduceLevel::Avx2})
    if (ReduceFn function = reduceFunction(dtype, reduction, level))
      return function;
  return reduceFunction(dtype, reduction, ReduceLevel::Base);
}
