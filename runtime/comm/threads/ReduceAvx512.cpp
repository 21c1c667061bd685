//===- ReduceAvx512.cpp - reduction loops for AVX-512 ---------------------===//
#define KERF_REDUCE_TABLE reduceTableAvx512
#include "ReduceKernels.inc"
