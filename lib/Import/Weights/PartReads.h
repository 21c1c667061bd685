//===- PartReads.h - which part of a tensor a node reads --------*- C++ -*-===//
//
// Problem: that several nodes read one stored tensor can mean two things. Nodes
// that read all of it, or the same part, may be layers of equal weights, which
// the exporter stored once. Nodes that read different parts read one weight: a
// GRU's biases are three slices of a vector.
//
// Idea: bounds of slices are seldom constants in a file, but are computed, by
// nodes of their own for each slice. Values get equal numbers where equal nodes
// compute them of equal values; parts are the same whose bounds have the same
// numbers. Linear in the size of the graph.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_WEIGHTS_PARTREADS_H
#define KERF_LIB_IMPORT_WEIGHTS_PARTREADS_H

#include "../File/Tensors.h"

#include "llvm/ADT/StringMap.h"

#include <optional>
#include <string>

namespace kerf::onnx_import {

class PartReads {
public:
  explicit PartReads(const onnx::GraphProto &graph);

  /// The part of this input that the node reads: equal texts for equal parts.
  /// None for a node that reads all of it, or what is not known.
  std::optional<std::string> partOf(const onnx::NodeProto &node,
                                    int input) const;

private:
  /// What the node does with the values from input `first` on.
  std::string textOf(const onnx::NodeProto &node, int first) const;
  std::string numberOf(const std::string &name) const;

  llvm::StringMap<size_t> numbers; ///< of values
  llvm::StringMap<bool> constants; ///< values that the file has
};

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_WEIGHTS_PARTREADS_H
