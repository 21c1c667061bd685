//===- ReduceAvx512.cpp - reduction loops, Avx512 instruction set
//--------------===//
#define KERF_REDUCE_TABLE reduceTableAvx512
#include "ReduceKernels.inc"
