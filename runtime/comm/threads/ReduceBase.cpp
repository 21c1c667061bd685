//===- ReduceBase.cpp - reduction loops, Base instruction set
//--------------===//
#define KERF_REDUCE_TABLE reduceTableBase
#include "ReduceKernels.inc"
