//===- GraphReads.h - who reads the values of a graph -----------*- C++ -*-===//
#ifndef KERF_LIB_IMPORT_GRAPH_GRAPHREADS_H
#define KERF_LIB_IMPORT_GRAPH_GRAPHREADS_H

#include "../File/Tensors.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace kerf::onnx_import {

struct GraphReads {
  explicit GraphReads(const onnx::GraphProto &graph);

  struct Read {
    int node, input;
  };
  /// By inputs of the graph's own nodes, of what values hold: not of their type
  /// or shape alone.
  llvm::StringMap<llvm::SmallVector<Read>> here;
  /// Names that outputs are, or that nodes of graphs within read.
  llvm::StringSet<> elsewhere;
  /// Names that are taken, in graphs within too.
  llvm::StringSet<> defined;
};

/// Whether all elements are equal.
bool isUniform(const TensorData &data);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_GRAPH_GRAPHREADS_H
