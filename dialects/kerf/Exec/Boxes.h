//===- Boxes.h - library calls on boxes -------------------------*- C++ -*-===//
//
// exec.greedy_suppress, which few files know.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_EXEC_BOXES_H
#define KERF_EXEC_BOXES_H

#include "kerf/Exec/Exec.h"

#define GET_OP_CLASSES
#include "kerf/Exec/ExecApart.h.inc"

#endif // KERF_EXEC_BOXES_H
