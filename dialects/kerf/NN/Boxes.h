//===- Boxes.h - ops of nn on boxes -----------------------------*- C++ -*-===//
//
// nn.greedy_suppress, which few files know.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_BOXES_H
#define KERF_NN_BOXES_H

#include "kerf/NN/NN.h"

#define GET_OP_CLASSES
#include "kerf/NN/NNApart.h.inc"

#endif // KERF_NN_BOXES_H
