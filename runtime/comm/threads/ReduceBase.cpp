//===- ReduceBase.cpp - reduction loops, baseline instructions ------------===//
#define KERF_REDUCE_TABLE reduceTableBase
#include "ReduceKernels.inc"
