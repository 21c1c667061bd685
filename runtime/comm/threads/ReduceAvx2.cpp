//===- ReduceAvx2.cpp - reduction loops for AVX2 --------------------------===//
#define KERF_REDUCE_TABLE reduceTableAvx2
#include "ReduceKernels.inc"
