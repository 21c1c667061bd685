//===- Wire.cpp - walk protobuf's wire format -----------------------------===//
//
// A table lists the fields of each message that can hold tensors; only those
// are entered. Each nested message is built separately, since its length
// precedes it and shrinks with its payloads.
//
//===----------------------------------------------------------------------===//
#include "Wire.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Endian.h"

using namespace kerf;
using namespace kerf::onnx_import;
using namespace llvm;

namespace {

// libprotobuf refuses deeper messages too; the limit is checked here first.
constexpr unsigned kMaxDepth = 90;
constexpr uint64_t kMaxBytes = uint64_t(1) << 31;

class Walker {
public:
  explicit Walker(ArrayRef<uint8_t> file) : file(file) {}

  bool message(Message kind, uint64_t begin, uint64_t end, unsigned depth,
               std::string &out);
  std::string error;

private:
  bool fail(uint64_t at, const Twine &reason) {
    error = ("byte " + Twine(at) + ": " + reason).str();
    return false;
  }
  bool varint(uint64_t &at, uint64_t end, uint64_t &value);
  bool group(uint64_t &at, uint64_t end);
  bool payload(uint32_t field, uint32_t wire, uint64_t begin, uint64_t end,
               PayloadRef &ref, unsigned &payloads);
  static void appendVarint(std::string &out, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      out.push_back(static_cast<char>(value | 0x80));
    out.push_back(static_cast<char>(value));
  }

  ArrayRef<uint8_t> file;
};

} // namespace

Message kerf::onnx_import::childOf(Message message, uint32_t field) {
  switch (message) {
  case Message::Model:
    return field == 7    ? Message::Graph
           : field == 20 ? Message::Drop
           : field == 25 ? Message::Function
                         : Message::Opaque;
  case Message::Graph:
    return field == 1    ? Message::Node
           : field == 5  ? Message::Tensor
           : field == 15 ? Message::SparseTensor
                         : Message::Opaque;
  case Message::Function:
    return field == 7    ? Message::Node
           : field == 11 ? Message::Attribute
                         : Message::Opaque;
  case Message::Node:
    return field == 5 ? Message::Attribute : Message::Opaque;
  case Message::Attribute:
    return field == 5 || field == 10    ? Message::Tensor
           : field == 6 || field == 11  ? Message::Graph
           : field == 22 || field == 23 ? Message::SparseTensor
                                        : Message::Opaque;
  case Message::SparseTensor:
    return field == 1 || field == 2 ? Message::Tensor : Message::Opaque;
  default:
    return Message::Opaque;
  }
}

bool Walker::varint(uint64_t &at, uint64_t end, uint64_t &value) {
  value = 0;
  uint64_t start = at;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (at >= end)
      return fail(start, "file ends inside a number");
    uint8_t byte = file[at++];
    if (shift < 64)
      value |= uint64_t(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return true;
  }
  return fail(start, "number has more than 10 bytes");
}

/// Skips a group of an unknown field; groups do not occur in ONNX.
bool Walker::group(uint64_t &at, uint64_t end) {
  return fail(at, "unexpected group, not an ONNX model");
}

/// Whether `field` is a payload of TensorProto; large contiguous ones become
/// the reference.
bool Walker::payload(uint32_t field, uint32_t wire, uint64_t begin,
                     uint64_t end, PayloadRef &ref, unsigned &payloads) {
  if (wire != 2 || (field != 4 && field != 9 && field != 10))
    return false;
  ++payloads;
  ref.offset = begin;
  ref.length = end - begin;
  ref.kind = field == 9   ? PayloadRef::Raw
             : field == 4 ? PayloadRef::Float
                          : PayloadRef::Double;
  return true;
}

bool Walker::message(Message kind, uint64_t at, uint64_t end, unsigned depth,
                     std::string &out) {
  if (depth > kMaxDepth)
    return fail(at, "messages are nested deeper than " + Twine(kMaxDepth));
  PayloadRef ref;
  unsigned payloads = 0, typed = 0;
  while (at < end) {
    uint64_t start = at, tag, value;
    if (!varint(at, end, tag))
      return false;
    uint64_t field = tag >> 3;
    uint32_t wire = tag & 7;
    if (field == 0 || field > 0x1fffffff)
      return fail(start,
                  "field number " + Twine(field) + " is not one of protobuf");
    switch (wire) {
    case 0:
      if (!varint(at, end, value))
        return false;
      break;
    case 1:
    case 5: {
      uint64_t size = wire == 1 ? 8 : 4;
      if (end - at < size)
        return fail(start, "field of " + Twine(size) + " bytes, only " +
                               Twine(end - at) + " left");
      at += size;
      break;
    }
    case 2: {
      if (!varint(at, end, value))
        return false;
      if (value > end - at)
        return fail(start, "field of " + Twine(value) + " bytes, only " +
                               Twine(end - at) +
                               " left: the file may be cut short");
      uint64_t begin = at;
      at += value;
      Message child = childOf(kind, static_cast<uint32_t>(field));
      if (child == Message::Drop)
        continue;
      if (kind == Message::Tensor &&
          payload(static_cast<uint32_t>(field), wire, begin, at, ref, payloads))
        continue;
      if (child != Message::Opaque) {
        std::string nested;
        if (!message(child, begin, at, depth + 1, nested))
          return false;
        appendVarint(out, tag);
        appendVarint(out, nested.size());
        out += nested;
        continue;
      }
      break;
    }
    case 3:
    case 4:
      return group(start, end);
    default:
      return fail(start, "wire type " + Twine(wire) + " does not exist");
    }
    // int32_data, string_data, int64_data, uint64_data and unpacked floats.
    if (kind == Message::Tensor &&
        ((field >= 4 && field <= 7) || field == 10 || field == 11))
      typed |= 1u << field;
    out.append(reinterpret_cast<const char *>(file.data()) + start, at - start);
  }
  if (payloads) {
    if (payloads > 1 || typed)
      ref.kind = PayloadRef::Conflict;
    std::string encoded = ref.encode();
    appendVarint(out, 9 << 3 | 2);
    appendVarint(out, encoded.size());
    out += encoded;
  }
  return true;
}

std::string PayloadRef::encode() const {
  std::string bytes(17, '\0');
  support::endian::write64le(bytes.data(), offset);
  support::endian::write64le(bytes.data() + 8, length);
  bytes[16] = static_cast<char>(kind);
  return bytes;
}

std::optional<PayloadRef> PayloadRef::decode(StringRef bytes) {
  if (bytes.size() != 17 || static_cast<uint8_t>(bytes[16]) > Conflict)
    return std::nullopt;
  PayloadRef ref;
  ref.offset = support::endian::read64le(bytes.data());
  ref.length = support::endian::read64le(bytes.data() + 8);
  ref.kind = static_cast<Kind>(bytes[16]);
  return ref;
}

std::optional<std::string>
kerf::onnx_import::readSkeleton(ArrayRef<uint8_t> file, std::string &error) {
  if (file.empty()) {
    error = "file is empty";
    return std::nullopt;
  }
  if (file.size() >= kMaxBytes) {
    error = ("file has " + Twine(file.size()) +
             " bytes, expected less than 2147483648 (2 GiB, the limit of "
             "protobuf); larger weights belong into external data")
                .str();
    return std::nullopt;
  }
  Walker walker(file);
  std::string skeleton;
  if (!walker.message(Message::Model, 0, file.size(), 0, skeleton)) {
    error = walker.error;
    return std::nullopt;
  }
  return skeleton;
}
