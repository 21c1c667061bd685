//===- Names.h - names that can be printed ----------------------*- C++ -*-===//
//
// ONNX does not restrict the bytes of a name, and a damaged file may have any:
// escape sequences that a terminal obeys, line feeds that look like another
// message, bytes that are not UTF-8 and that JSON cannot hold. So a name is
// made printable where it is read, before anything uses it, and is then the
// same in messages, flags, plans, packages and file names.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_GRAPH_NAMES_H
#define KERF_LIB_IMPORT_GRAPH_NAMES_H

#include "onnx.pb.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <string>

namespace kerf::onnx_import {

/// `text` with the bytes of characters that are not printable, and those that
/// are no UTF-8, as \xNN.
std::string printable(llvm::StringRef text);

/// Of a name that a flag gives: "model has no input of this name, did you mean
/// "x"?", or which inputs there are.
std::string noInputOf(llvm::ArrayRef<std::string> inputs,
                      const std::string &name);

/// Names of values that the outputs of a graph depend on.
llvm::StringSet<> namesRead(const onnx::GraphProto &graph);

/// All names of a model: of values, nodes, operators, attributes, domains and
/// dimensions. Names of files are kept, since they are opened.
void makeNamesPrintable(onnx::ModelProto &model);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_GRAPH_NAMES_H
