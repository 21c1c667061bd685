//===- Wire.h - a model's skeleton, without its payloads --------*- C++ -*-===//
//
// libprotobuf copies `raw_data`. So the mapped file is walked first: everything
// is copied into a skeleton except the payloads of tensors, which become
// references into the file. libprotobuf then parses the skeleton. One pass over
// the tags; memory proportional to the skeleton; nesting is bounded before any
// recursion, lengths are checked in 64 bits.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_FILE_WIRE_H
#define KERF_LIB_IMPORT_FILE_WIRE_H

#include "llvm/ADT/ArrayRef.h"

#include <optional>
#include <string>

namespace kerf::onnx_import {

/// The messages that are entered, since tensors can be in them.
enum class Message {
  Opaque, // copied as it is
  Drop,   // left out
  Model,
  Graph,
  Node,
  Attribute,
  Tensor,
  SparseTensor,
  Function,
};
/// The kind of a field of a message.
Message childOf(Message message, uint32_t field);

/// The reference that replaces a payload in TensorProto.raw_data of the
/// skeleton.
struct PayloadRef {
  enum Kind : uint8_t { Raw, Float, Double, Conflict };
  uint64_t offset = 0, length = 0;
  Kind kind = Raw;

  std::string encode() const;
  static std::optional<PayloadRef> decode(llvm::StringRef bytes);
};

/// The serialized ModelProto with every payload (raw_data, packed float_data
/// and double_data) replaced by an encoded PayloadRef in field raw_data. Two
/// payloads in one tensor give kind Conflict. Training graphs are left out;
/// unknown fields of nested messages are copied. On malformed input none, and
/// `error` names the byte.
std::optional<std::string> readSkeleton(llvm::ArrayRef<uint8_t> file,
                                        std::string &error);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_FILE_WIRE_H
