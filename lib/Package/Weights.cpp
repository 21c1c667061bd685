//===- Weights.cpp - the stored tensors of a package ----------------------===//
//
// See Weights.h.
//
//===----------------------------------------------------------------------===//
#include "Weights.h"

#include "kerf/Entries/Entries.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Interfaces/KerfDialect.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace kerf;

int64_t StoredTensor::sizeBytes() const { return exec::sizeBytes(type); }

static llvm::Error makeError(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// The path of file number `index` of the model.
static llvm::Expected<std::string> filePath(ModuleOp module, int64_t index) {
  auto files = module->getAttrOfType<ArrayAttr>(kFilesAttr);
  if (!files || index < 0 || index >= static_cast<int64_t>(files.size()))
    return makeError("weight refers to file " + Twine(index) +
                     ", which kerf.files does not have");
  return cast<StringAttr>(files[index]).getValue().str();
}

static llvm::Expected<ExternalFile> findFile(ModuleOp module, int64_t index,
                                             int64_t end) {
  auto path = filePath(module, index);
  if (!path)
    return path.takeError();
  ExternalFile file;
  SmallString<128> real;
  uint64_t size = 0;
  if (auto error = llvm::sys::fs::real_path(*path, real))
    return makeError(*path + ": " + error.message());
  if (auto error = llvm::sys::fs::file_size(real, size))
    return makeError(*path + ": " + error.message());
  if (static_cast<uint64_t>(end) > size)
    return makeError(*path + ": has " + Twine(size) +
                     " bytes, a weight ends at " + Twine(end));
  file.path = real.str().str();
  file.bytes = size;
  return file;
}

llvm::Expected<WeightPlan> kerf::planWeights(ModuleOp module, bool inPlace) {
  WeightPlan plan;
  llvm::StringSet<> used;
  std::vector<StoredTensor> aligned, rest;
  for (auto parameter : module.getOps<exec::ParameterOp>()) {
    Attribute source = parameter.getSource();
    if (plan.names.count(source))
      continue;
    StoredTensor tensor;
    if (auto data = dyn_cast<DenseElementsAttr>(source)) {
      tensor.data = data;
      tensor.type = cast<RankedTensorType>(data.getType());
    } else {
      auto range = dyn_cast<exec::FileRangeAttr>(source);
      if (!range)
        continue;
      tensor.file = range.getFile();
      tensor.offset = range.getOffset();
      tensor.type = range.getStored();
      auto file =
          findFile(module, tensor.file, tensor.offset + tensor.sizeBytes());
      if (!file)
        return file.takeError();
      if (inPlace) {
        if (plan.externalOf.try_emplace(tensor.file, plan.external.size())
                .second)
          plan.external.push_back(*file);
        continue;
      }
    }
    std::string name = parameter.getTensorName().str();
    tensor.name = name;
    for (int i = 1; !used.insert(tensor.name).second; ++i)
      tensor.name = name + "." + std::to_string(i);
    plan.names[source] = tensor.name;
    (tensor.sizeBytes() % 64 == 0 ? aligned : rest).push_back(tensor);
  }
  plan.tensors = std::move(aligned);
  plan.tensors.insert(plan.tensors.end(), rest.begin(), rest.end());
  return plan;
}

/// Whether two tensors, of two contexts, have the same bytes.
static bool isSame(const StoredTensor &a, const StoredTensor &b) {
  if (a.type.getShape() != b.type.getShape() || a.file != b.file ||
      dtypeName(a.type.getElementType()) != dtypeName(b.type.getElementType()))
    return false;
  return a.file >= 0 ? a.offset == b.offset
                     : a.data.isSplat() == b.data.isSplat() &&
                           a.data.getRawData() == b.data.getRawData();
}

void kerf::shareWeights(WeightPlan &plan, WeightPlan &other) {
  llvm::StringSet<> used;
  llvm::StringMap<SmallVector<size_t, 1>> known; // by what is cheap to compare
  auto key = [](const StoredTensor &tensor) {
    return std::to_string(tensor.file) + ":" + std::to_string(tensor.offset) +
           ":" + std::to_string(tensor.sizeBytes());
  };
  for (auto [i, tensor] : llvm::enumerate(plan.tensors)) {
    used.insert(tensor.name);
    known[key(tensor)].push_back(i);
  }
  llvm::StringMap<std::string> renamed;
  for (StoredTensor &tensor : other.tensors) {
    std::string name = tensor.name;
    std::string &shared = renamed[name];
    for (size_t i : known.lookup(key(tensor)))
      if (shared.empty() && isSame(plan.tensors[i], tensor))
        shared = plan.tensors[i].name;
    if (!shared.empty())
      continue;
    for (int i = 1; !used.insert(tensor.name).second; ++i)
      tensor.name = name + "." + std::to_string(i);
    shared = tensor.name;
    plan.tensors.push_back(tensor);
  }
  for (auto &entry : other.names)
    entry.second = renamed[entry.second];
}

/// Data types as safetensors names them.
static StringRef safetensorsType(Type type) {
  return llvm::StringSwitch<StringRef>(dtypeName(type))
      .Case("f32", "F32")
      .Case("f64", "F64")
      .Case("f16", "F16")
      .Case("bf16", "BF16")
      .Case("i8", "I8")
      .Case("i16", "I16")
      .Case("i32", "I32")
      .Case("i64", "I64")
      .Case("u8", "U8")
      .Case("u16", "U16")
      .Case("u32", "U32")
      .Case("u64", "U64")
      .Case("bool", "BOOL")
      .Case("f8e4m3fn", "F8_E4M3")
      .Case("f8e5m2", "F8_E5M2")
      .Case("f8e8m0fnu", "F8_E8M0")
      // Codes in bytes: safetensors has no name for them.
      .Cases({"f8e4m3fnuz", "f8e5m2fnuz", "f4e2m1fn", "i4", "u4", "i2", "u2"},
             "U8")
      .Default("");
}

/// A literal's bytes, dense.
static void writeLiteral(const StoredTensor &tensor, raw_ostream &stream) {
  // A splat stores one element; i1 is expanded to bytes.
  if (tensor.type.getElementType().isInteger(1)) {
    for (bool value : tensor.data.getValues<bool>())
      stream << static_cast<char>(value);
    return;
  }
  ArrayRef<char> raw = tensor.data.getRawData();
  int64_t repeats = tensor.data.isSplat() ? tensor.type.getNumElements() : 1;
  for (int64_t i = 0; i < repeats; ++i)
    stream.write(raw.data(), raw.size());
}

llvm::Error kerf::writeWeights(ModuleOp module, const WeightPlan &plan,
                               llvm::raw_fd_ostream &stream) {
  llvm::json::Object header;
  int64_t offset = 0;
  for (const StoredTensor &tensor : plan.tensors) {
    llvm::json::Array shape(tensor.type.getShape());
    header[tensor.name] = llvm::json::Object{
        {"dtype", safetensorsType(tensor.type.getElementType())},
        {"shape", std::move(shape)},
        {"data_offsets",
         llvm::json::Array{offset, offset + tensor.sizeBytes()}}};
    offset += tensor.sizeBytes();
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(header));
  text.resize(llvm::alignTo(text.size() + 8, 64) - 8, ' ');
  char length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<char>(text.size() >> (8 * i));
  stream.write(length, 8);
  stream << text;
  llvm::DenseMap<int64_t, std::unique_ptr<llvm::MemoryBuffer>> files;
  for (const StoredTensor &tensor : plan.tensors) {
    if (tensor.file < 0) {
      writeLiteral(tensor, stream);
      continue;
    }
    std::unique_ptr<llvm::MemoryBuffer> &file = files[tensor.file];
    if (!file) {
      auto path = filePath(module, tensor.file);
      if (!path)
        return path.takeError();
      auto opened = llvm::MemoryBuffer::getFile(
          *path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
      if (!opened)
        return makeError(*path + ": " + opened.getError().message());
      file = std::move(*opened);
    }
    if (static_cast<uint64_t>(tensor.offset + tensor.sizeBytes()) >
        file->getBufferSize())
      return makeError("a file of weights has become shorter");
    stream.write(file->getBufferStart() + tensor.offset, tensor.sizeBytes());
  }
  return llvm::Error::success();
}
