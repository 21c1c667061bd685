//===- OwnReads.h - who reads a parameter as its own ------------*- C++ -*-===//
//
// Problem: several nodes that read one stored tensor are layers of equal
// weights, which an exporter stored once, or one module that is applied several
// times, as a cell is to each element of a sequence. The first are to be
// trained apart, the second as one.
//
// Idea: PyTorch's exporters say of each node from where it is. The newer one
// writes the call with its arguments, and the parameter "cell.bias" is the
// argument %p_cell_bias; the older one names nodes by modules (/cell/Gemm, and
// /cell_1/Gemm when it is applied again) and has an Identity where it stored
// equal weights once. Where neither is there, nothing is known.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_WEIGHTS_OWNREADS_H
#define KERF_LIB_IMPORT_WEIGHTS_OWNREADS_H

#include "../File/Tensors.h"

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace kerf::onnx_import {

/// The call of PyTorch that a node is a part of, by its exporter; else empty.
llvm::StringRef callOf(const onnx::NodeProto &node);

/// The call without its results and what it computes with, so with the
/// parameters and buffers that it reads: alike for all applications of one
/// module. Empty if it reads none, or if the file does not say.
std::string parametersOf(llvm::StringRef call);

/// The modules in a node's name, "/layers/layers.0/norm/" of ".../Mul".
llvm::StringRef scopeOf(const onnx::NodeProto &node);

/// The argument of a call that is called after a parameter of the same last
/// name, %p_cell_bias for "norm.bias", if there is just one; else empty. A
/// module that is applied several times has one, whatever other tensor is
/// stored in its place.
llvm::StringRef argumentLike(llvm::StringRef call, llvm::StringRef parameter);

/// Whether the file says that the node's call or module in PyTorch has a
/// parameter of just this name.
bool isOwnRead(const onnx::NodeProto &node, llvm::StringRef parameter);

/// Initializers that several nodes read, all of them as their own, or as one
/// parameter of another name.
std::vector<std::string> sharedByModel(const onnx::GraphProto &graph);

/// Names that the modules which read an initializer have for it, by the file,
/// where it is stored under another's: ("wte.weight", "lm_head.weight").
std::vector<std::pair<std::string, std::string>>
otherNamesOf(const onnx::GraphProto &graph);

/// Parameters that a call has in PyTorch and its nodes do not, with no tensor
/// in their place: the exporter leaves out a bias of zeros. As "fc.bias" where
/// the call reads "fc.weight", else as the call has it.
std::vector<std::string> leftOut(const onnx::GraphProto &graph);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_WEIGHTS_OWNREADS_H
