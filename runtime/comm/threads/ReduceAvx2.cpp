//===- ReduceAvx2.cpp - reduction loops, Avx2 instruction set
//--------------===//
#define KERF_REDUCE_TABLE reduceTableAvx2
#include "ReduceKernels.inc"
