//===- ModelImage.cpp - a model's file with more initializers -------------===//
//
// Protobuf's messages say their lengths in front, so an edit inside the graph
// changes the graph's length and the edited node's, and nothing else. Nodes are
// rebuilt field by field; all other bytes are ranges of the original.
//
//===----------------------------------------------------------------------===//
#include "kerf/Import/ModelImage.h"

#include "Tensors.h"
#include "Wire.h"

#include "mlir/IR/MLIRContext.h"

using namespace kerf;
using namespace kerf::onnx_import;

namespace {

void appendVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void appendField(std::string &out, uint32_t field, llvm::StringRef bytes) {
  appendVarint(out, field << 3 | 2);
  appendVarint(out, bytes.size());
  out += bytes;
}

/// The fields of a message, in order. The file was imported, so it is well
/// formed; what is not all the same ends the walk.
struct Field {
  uint32_t number = 0;
  bool isBytes = false;
  uint64_t start = 0, begin = 0, end = 0; ///< start: of its tag
};

class Fields {
public:
  Fields(llvm::ArrayRef<uint8_t> file, uint64_t begin, uint64_t end)
      : file(file), at(begin), end(end) {}
  bool next(Field &field) {
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
      if (!varint(size))
        return false;
      field.end = at;
      return true;
    case 1:
      size = 8;
      break;
    case 5:
      size = 4;
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

class Editor {
public:
  Editor(llvm::ArrayRef<uint8_t> file, ModelImage &image)
      : file(file), image(image) {}

  /// The node's bytes with other names at these inputs.
  std::string renamed(const Field &node,
                      const std::map<int, std::string> &inputs) const {
    std::string out;
    int input = 0;
    Fields fields(file, node.begin, node.end);
    for (Field field; fields.next(field);) {
      auto rename = inputs.end();
      if (field.number == 1)
        rename = inputs.find(input++);
      if (rename != inputs.end())
        appendField(out, 1, rename->second);
      else
        out += text(field.start, field.end);
    }
    return out;
  }
  llvm::StringRef text(uint64_t begin, uint64_t end) const {
    return {reinterpret_cast<const char *>(file.data()) + begin, end - begin};
  }

  void range(uint64_t begin, uint64_t end) {
    if (begin == end)
      return;
    size += end - begin;
    if (!image.pieces.empty() && image.pieces.back().bytes.empty() &&
        image.pieces.back().begin + image.pieces.back().length == begin) {
      image.pieces.back().length += end - begin;
      return;
    }
    image.pieces.push_back({begin, end - begin, {}});
  }
  void bytes(std::string content) {
    size += content.size();
    image.pieces.push_back({0, 0, std::move(content)});
  }

  llvm::ArrayRef<uint8_t> file;
  ModelImage &image;
  uint64_t size = 0; ///< of the new file so far
};

/// An initializer up to its content, which is the last field.
std::string headOf(const std::string &name, int32_t type,
                   llvm::ArrayRef<int64_t> shape, uint64_t contentBytes) {
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

} // namespace

bool kerf::makeModelImage(llvm::StringRef path,
                          const std::vector<UntiedCopy> &copies,
                          ModelImage &image, std::string &error) {
  image = {};
  if (copies.empty())
    return true;
  auto files = ModelFiles::open(path, false, error);
  if (!files)
    return false;
  llvm::ArrayRef<uint8_t> file = files->modelBytes();
  onnx::ModelProto model;
  auto skeleton = readSkeleton(file, error);
  if (!skeleton || !model.ParseFromString(*skeleton))
    return false;
  std::map<std::string, const onnx::TensorProto *> stored;
  for (const auto &tensor : model.graph().initializer())
    stored[tensor.name()] = &tensor;
  std::map<int, std::map<int, std::string>> renames;
  std::string added;
  std::map<std::string, uint64_t> places; // in `added`
  mlir::MLIRContext context;
  for (const UntiedCopy &copy : copies) {
    bool unsupported;
    auto tensor = stored.find(copy.original);
    auto data = tensor == stored.end()
                    ? std::nullopt
                    : files->read(&context, *tensor->second, error, unsupported);
    if (!data)
      return false;
    renames[copy.node][copy.input] = copy.name;
    added += headOf(copy.name, tensor->second->data_type(),
                    data->type.getShape(), data->bytes.size());
    places[copy.name] = added.size();
    added.append(reinterpret_cast<const char *>(data->bytes.data()),
                 data->bytes.size());
  }

  // The graph, which must be one field: exporters write no other.
  Field graph, field;
  int graphs = 0;
  for (Fields fields(file, 0, file.size()); fields.next(field);)
    if (field.number == 7 && field.isBytes)
      graph = field, ++graphs;
  if (graphs != 1) {
    error = "its graph is stored in several parts";
    return false;
  }
  std::map<int, std::string> nodes; // rebuilt
  Editor editor(file, image);
  uint64_t length = graph.end - graph.begin + added.size();
  int number = 0;
  for (Fields fields(file, graph.begin, graph.end); fields.next(field);) {
    if (field.number != 1 || !field.isBytes)
      continue;
    if (auto rename = renames.find(number); rename != renames.end()) {
      std::string &node = nodes[number];
      appendField(node, 1, editor.renamed(field, rename->second));
      length += node.size() - (field.end - field.start);
    }
    ++number;
  }
  editor.range(0, graph.start);
  std::string head;
  appendVarint(head, 7 << 3 | 2);
  appendVarint(head, length);
  editor.bytes(std::move(head));
  number = 0;
  for (Fields fields(file, graph.begin, graph.end); fields.next(field);) {
    auto node = nodes.end();
    if (field.number == 1 && field.isBytes)
      node = nodes.find(number++);
    if (node != nodes.end())
      editor.bytes(std::move(node->second));
    else
      editor.range(field.start, field.end);
  }
  for (const auto &[name, place] : places)
    image.copies[name] = editor.size + place;
  editor.bytes(std::move(added));
  editor.range(graph.end, file.size());
  if (editor.size >= uint64_t(1) << 31) {
    error = "it would have 2 GiB, more than protobuf allows";
    return false;
  }
  return true;
}
