//===- ModelImage.cpp - a model's file with edits -------------------------===//
//
// Protobuf messages are preceded by their lengths, so an edit changes the
// lengths of the messages around it, and nothing else. An unchanged message is
// a range of the original; a changed one is its new head and then its fields,
// each of them a range or rebuilt in turn.
//
//===----------------------------------------------------------------------===//
#include "kerf/Import/ModelImage.h"

#include "../Graph/Names.h"
#include "../Importer.h"
#include "Tensors.h"
#include "Wire.h"

#include "mlir/IR/MLIRContext.h"

#include <optional>
#include <set>

using namespace kerf;
using namespace kerf::onnx_import;

static void appendVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

static void appendField(std::string &out, uint32_t field,
                        llvm::StringRef bytes) {
  appendVarint(out, field << 3 | 2);
  appendVarint(out, bytes.size());
  out += bytes;
}

namespace {

struct Field {
  uint32_t number = 0;
  bool isBytes = false;
  uint64_t start = 0, begin = 0, end = 0; ///< start: of its tag
};

/// The fields of a message, in order. The file was imported before, so it is
/// well formed; if it is not any more, the walk ends.
class Fields {
public:
  Fields(llvm::ArrayRef<uint8_t> file, uint64_t begin, uint64_t end)
      : file(file), at(begin), end(end) {}
  bool next(Field &field);

private:
  bool varint(uint64_t &value) {
    value = 0;
    for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
      uint8_t byte = file[at++];
      value |= uint64_t(byte & 0x7f) << shift;
      if (!(byte & 0x80))
        return true;
    }
    return false;
  }
  llvm::ArrayRef<uint8_t> file;
  uint64_t at, end;
};

/// A message that is being rebuilt.
struct Content {
  std::vector<ModelImage::Piece> pieces;
  uint64_t size = 0;
  bool isChanged = false;
  std::optional<uint64_t> addedAt; ///< where the new initializers begin

  void range(uint64_t begin, uint64_t end) {
    size += end - begin;
    if (begin == end)
      return;
    if (!pieces.empty() && pieces.back().bytes.empty() &&
        pieces.back().begin + pieces.back().length == begin)
      pieces.back().length += end - begin;
    else
      pieces.push_back({begin, end - begin, {}});
  }
  void bytes(std::string text) {
    size += text.size();
    isChanged = true;
    if (!text.empty())
      pieces.push_back({0, 0, std::move(text)});
  }
  /// A field that is a message.
  void nested(uint32_t field, Content content) {
    std::string head;
    appendVarint(head, field << 3 | 2);
    appendVarint(head, content.size);
    bytes(std::move(head));
    if (content.addedAt)
      addedAt = size + *content.addedAt;
    size += content.size;
    for (ModelImage::Piece &piece : content.pieces)
      pieces.push_back(std::move(piece));
  }
};

class Editor {
public:
  Editor(llvm::ArrayRef<uint8_t> file, const ModelEdits &edits,
         std::string added)
      : file(file), edits(edits), added(std::move(added)) {
    for (const UntiedCopy &copy : edits.copies)
      inputs[copy.node][copy.input] = copy.name;
    for (const JoinedRead &read : edits.joined) {
      inputs[read.node][read.input] = read.name;
      gone.insert(read.other);
    }
  }
  Content message(Message kind, uint64_t begin, uint64_t end,
                  llvm::ArrayRef<Message> parents = {});

private:
  llvm::StringRef text(const Field &field) const {
    return {reinterpret_cast<const char *>(file.data()) + field.begin,
            field.end - field.begin};
  }
  const std::string *newLocation(const Field &entry) const;
  bool isGone(const Field &tensor) const;

  llvm::ArrayRef<uint8_t> file;
  const ModelEdits &edits;
  std::string added;
  /// New names of inputs of the main graph, by node and input number.
  std::map<int, std::map<int, std::string>> inputs;
  std::set<std::string> gone; ///< initializers of the main graph
  int nodes = 0;
};

} // namespace

bool Fields::next(Field &field) {
  if (at >= end)
    return false;
  field.start = at;
  uint64_t tag, size = 0;
  if (!varint(tag))
    return false;
  field.number = static_cast<uint32_t>(tag >> 3);
  field.isBytes = (tag & 7) == 2;
  switch (tag & 7) {
  case 0:
    field.begin = at;
    field.end = varint(size) ? at : end;
    return true;
  case 1:
  case 5:
    size = (tag & 7) == 1 ? 8 : 4;
    break;
  case 2:
    if (!varint(size))
      return false;
    break;
  default:
    return false;
  }
  if (size > end - at)
    return false;
  field.begin = at;
  field.end = at += size;
  return true;
}

/// Rewrites an entry of a tensor's external_data if it is a location that gets
/// another name.
const std::string *Editor::newLocation(const Field &entry) const {
  bool isLocation = false;
  llvm::StringRef value;
  Fields fields(file, entry.begin, entry.end);
  for (Field field; fields.next(field);) {
    isLocation |= field.number == 1 && text(field) == "location";
    if (field.number == 2)
      value = text(field);
  }
  auto other = edits.locations.find(value.str());
  return isLocation && other != edits.locations.end() ? &other->second
                                                      : nullptr;
}

bool Editor::isGone(const Field &tensor) const {
  Fields fields(file, tensor.begin, tensor.end);
  for (Field field; fields.next(field);)
    if (field.number == 8)
      return gone.count(text(field).str()) != 0;
  return false;
}

Content Editor::message(Message kind, uint64_t begin, uint64_t end,
                        llvm::ArrayRef<Message> parents) {
  const std::map<int, std::string> *names = nullptr;
  if (kind == Message::Node && parents.size() == 2 &&
      parents[1] == Message::Graph)
    if (auto found = inputs.find(nodes++); found != inputs.end())
      names = &found->second;
  Content content;
  llvm::SmallVector<Message> path(parents);
  path.push_back(kind);
  int input = 0;
  Fields fields(file, begin, end);
  for (Field field; fields.next(field);) {
    Message child = childOf(kind, field.number);
    if (kind == Message::Graph && parents.size() == 1 && field.number == 5 &&
        isGone(field)) {
      content.isChanged = true;
      continue;
    }
    if (names && field.number == 1) {
      auto name = names->find(input++);
      if (name != names->end()) {
        std::string renamed;
        appendField(renamed, 1, name->second);
        content.bytes(std::move(renamed));
        continue;
      }
    } else if (kind == Message::Tensor && field.number == 13) {
      if (const std::string *location = newLocation(field)) {
        std::string entry, whole;
        appendField(entry, 1, "location");
        appendField(entry, 2, *location);
        appendField(whole, 13, entry);
        content.bytes(std::move(whole));
        continue;
      }
    } else if (field.isBytes && child != Message::Opaque &&
               child != Message::Drop) {
      Content nested = message(child, field.begin, field.end, path);
      if (nested.isChanged) {
        content.nested(field.number, std::move(nested));
        continue;
      }
    }
    content.range(field.start, field.end);
  }
  if (kind == Message::Graph && parents.size() == 1 && !added.empty()) {
    content.addedAt = content.size;
    content.bytes(std::move(added));
  }
  return content;
}

/// An initializer up to its content, which is the last field.
static std::string headOf(const std::string &name, int32_t type,
                          llvm::ArrayRef<int64_t> shape,
                          uint64_t contentBytes) {
  std::string tensor;
  for (int64_t dim : shape) {
    appendVarint(tensor, 1 << 3);
    appendVarint(tensor, static_cast<uint64_t>(dim));
  }
  appendVarint(tensor, 2 << 3);
  appendVarint(tensor, static_cast<uint64_t>(type));
  appendField(tensor, 8, name);
  appendVarint(tensor, 9 << 3 | 2);
  appendVarint(tensor, contentBytes);
  std::string head;
  appendVarint(head, 5 << 3 | 2);
  appendVarint(head, tensor.size() + contentBytes);
  return head + tensor;
}

bool kerf::makeModelImage(llvm::StringRef path, const ModelEdits &edits,
                          ModelImage &image, std::string &error) {
  image = {};
  if (edits.empty())
    return true;
  auto files = ModelFiles::open(path, false, error);
  if (!files)
    return false;
  llvm::ArrayRef<uint8_t> file = files->modelBytes();
  onnx::ModelProto model;
  auto skeleton = readSkeleton(file, error);
  if (!skeleton || !model.ParseFromString(*skeleton))
    return false;
  makeNamesPrintable(model);
  int graphs = 0;
  Fields top(file, 0, file.size());
  for (Field field; top.next(field);)
    graphs += field.number == 7;
  if (graphs != 1) {
    error = "its graph is stored in several parts";
    return false;
  }
  std::map<std::string, const onnx::TensorProto *> stored;
  for (const auto &tensor : model.graph().initializer())
    stored[tensor.name()] = &tensor;
  std::string added;
  mlir::MLIRContext context;
  for (const UntiedCopy &copy : edits.copies) {
    if (image.copies.count(copy.name)) // several nodes read it
      continue;
    ModelFiles::Fault fault;
    auto tensor = stored.find(copy.original);
    auto data = tensor == stored.end()
                    ? std::nullopt
                    : files->read(&context, *tensor->second, error, fault);
    if (!data)
      return false;
    added += headOf(copy.name, tensor->second->data_type(),
                    data->type.getShape(), data->bytes.size());
    image.copies[copy.name] = added.size();
    added.append(reinterpret_cast<const char *>(data->bytes.data()),
                 data->bytes.size());
  }
  Content content = Editor(file, edits, std::move(added))
                        .message(Message::Model, 0, file.size());
  if (content.size >= uint64_t(1) << 31) {
    error = "it would have 2 GiB, more than protobuf allows";
    return false;
  }
  image.pieces = std::move(content.pieces);
  for (auto &[name, place] : image.copies)
    place += content.addedAt.value_or(0);
  return true;
}

static void collectLocations(const onnx::TensorProto &tensor,
                             std::set<std::string> &locations) {
  for (const auto &entry : tensor.external_data())
    if (entry.key() == "location")
      locations.insert(entry.value());
}

static void collectLocations(const onnx::GraphProto &graph,
                             std::set<std::string> &locations) {
  for (const auto &tensor : graph.initializer())
    collectLocations(tensor, locations);
  for (const auto &node : graph.node())
    for (const auto &attribute : node.attribute()) {
      if (attribute.has_t())
        collectLocations(attribute.t(), locations);
      for (const auto &tensor : attribute.tensors())
        collectLocations(tensor, locations);
      if (attribute.has_g())
        collectLocations(attribute.g(), locations);
      for (const auto &each : attribute.graphs())
        collectLocations(each, locations);
    }
}

bool kerf::readModelFacts(llvm::StringRef path, ModelFacts &facts,
                          std::string &error) {
  auto files = ModelFiles::open(path, true, error);
  if (!files)
    return false;
  onnx::ModelProto model;
  auto skeleton = readSkeleton(files->modelBytes(), error);
  if (!skeleton || !model.ParseFromString(*skeleton))
    return false;
  makeNamesPrintable(model);
  std::set<std::string> initializers;
  for (const onnx::TensorProto &tensor : model.graph().initializer())
    initializers.insert(tensor.name());
  llvm::StringSet<> read = onnx_import::namesRead(model.graph());
  for (const onnx::ValueInfoProto &input : model.graph().input())
    if (!initializers.count(input.name())) {
      facts.inputs.push_back(onnx_import::describe(input, {}));
      facts.inputs.back().isRead = read.contains(input.name());
    }
  for (const onnx::ValueInfoProto &output : model.graph().output())
    facts.outputs.push_back(output.name());
  std::set<std::string> locations;
  collectLocations(model.graph(), locations);
  facts.locations.assign(locations.begin(), locations.end());
  return true;
}
