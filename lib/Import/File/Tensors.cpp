//===- Tensors.cpp - find and check a tensor's bytes ----------------------===//
//
// A payload may be in three places, with one check for all: its length must be
// that of the shape and type. External data is opened below the model's folder
// only.
//===----------------------------------------------------------------------===//
#include "Tensors.h"
#include "Wire.h"

#include "kerf/Support/NarrowTypes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

#include <cstring>

using namespace kerf;
using namespace kerf::onnx_import;
using namespace mlir;

namespace {
struct DataType {
  const char *name;
  Type (*type)(MLIRContext *);
};
} // namespace

template <unsigned width, IntegerType::SignednessSemantics sign>
static Type integer(MLIRContext *context) {
  return IntegerType::get(context, width, sign);
}
template <class T> static Type floating(MLIRContext *context) {
  return T::get(context);
}

// Indexed by TensorProto.DataType.
static constexpr DataType kDataTypes[] = {
    {"undefined", nullptr},
    {"float", floating<Float32Type>},
    {"uint8", integer<8, IntegerType::Unsigned>},
    {"int8", integer<8, IntegerType::Signless>},
    {"uint16", integer<16, IntegerType::Unsigned>},
    {"int16", integer<16, IntegerType::Signless>},
    {"int32", integer<32, IntegerType::Signless>},
    {"int64", integer<64, IntegerType::Signless>},
    {"string", nullptr},
    {"bool", integer<1, IntegerType::Signless>},
    {"float16", floating<Float16Type>},
    {"double", floating<Float64Type>},
    {"uint32", integer<32, IntegerType::Unsigned>},
    {"uint64", integer<64, IntegerType::Unsigned>},
    {"complex64", nullptr},
    {"complex128", nullptr},
    {"bfloat16", floating<BFloat16Type>},
    {"float8e4m3fn", floating<Float8E4M3FNType>},
    {"float8e4m3fnuz", floating<Float8E4M3FNUZType>},
    {"float8e5m2", floating<Float8E5M2Type>},
    {"float8e5m2fnuz", floating<Float8E5M2FNUZType>},
    {"uint4", integer<4, IntegerType::Unsigned>},
    {"int4", integer<4, IntegerType::Signless>},
    {"float4e2m1", floating<Float4E2M1FNType>},
    {"float8e8m0", floating<Float8E8M0FNUType>},
    {"uint2", integer<2, IntegerType::Unsigned>},
    {"int2", integer<2, IntegerType::Signless>},
};

Type kerf::onnx_import::elementType(MLIRContext *context, int64_t dataType) {
  if (dataType < 0 || size_t(dataType) >= std::size(kDataTypes) ||
      !kDataTypes[dataType].type)
    return {};
  return kDataTypes[dataType].type(context);
}

std::string kerf::onnx_import::dataTypeName(int64_t dataType) {
  if (dataType < 0 || size_t(dataType) >= std::size(kDataTypes))
    return "data type " + std::to_string(dataType);
  return kDataTypes[dataType].name;
}

int64_t kerf::onnx_import::elementsPerByte(Type element) {
  unsigned width = element.getIntOrFloatBitWidth();
  return isNarrow(element) && width < 8 ? 8 / width : 1;
}

/// One element per byte; the first of a byte is in its low bits.
static std::vector<uint8_t> unpack(ArrayRef<uint8_t> bytes, int64_t count,
                                   Type element) {
  int64_t each = elementsPerByte(element);
  unsigned width = element.getIntOrFloatBitWidth();
  std::vector<uint8_t> codes(count);
  for (int64_t i = 0; i < count; ++i)
    codes[i] = static_cast<uint8_t>(bytes[i / each] >> (i % each * width)) &
               ((1 << width) - 1);
  return codes;
}

std::optional<int64_t> kerf::onnx_import::tensorBytes(ArrayRef<int64_t> shape,
                                                      Type element) {
  int64_t bytes = (element.getIntOrFloatBitWidth() + 7) / 8;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0)
      return std::nullopt;
    empty |= dim == 0;
    if (dim > 0 &&
        (llvm::MulOverflow(bytes, dim, bytes) || bytes > kMaxTensorBytes))
      return std::nullopt;
  }
  return empty ? 0 : bytes;
}

DenseElementsAttr kerf::onnx_import::toElements(const TensorData &data) {
  int64_t count = data.type.getNumElements();
  Type element = data.type.getElementType();
  if (element.isInteger(1)) {
    SmallVector<bool> values;
    for (uint8_t byte : data.bytes)
      values.push_back(byte != 0);
    return DenseElementsAttr::get(data.type, values);
  }
  size_t width = (element.getIntOrFloatBitWidth() + 7) / 8;
  const uint8_t *bytes = data.bytes.data();
  // A tensor of equal elements is a splat, one element long.
  bool splat = count > 1;
  for (int64_t i = 1; splat && i < count; ++i)
    splat = std::memcmp(bytes, bytes + i * width, width) == 0;
  if (splat)
    count = 1;
  // The raw buffer of an attribute must be aligned; mapped bytes may not be.
  SmallVector<uint64_t> aligned(llvm::divideCeil(count * width, 8) + 1);
  if (count)
    std::memcpy(aligned.data(), bytes, count * width);
  return DenseElementsAttr::getFromRawBuffer(
      data.type,
      ArrayRef<char>(reinterpret_cast<char *>(aligned.data()), count * width));
}

bool kerf::onnx_import::holdsInfinity(const TensorData &data) {
  auto type = cast<FloatType>(data.type.getElementType());
  APInt infinity = APFloat::getInf(type.getFloatSemantics()).bitcastToAPInt();
  uint64_t pattern = infinity.getZExtValue();
  uint64_t withoutSign =
      APInt::getSignedMaxValue(type.getWidth()).getZExtValue();
  size_t width = type.getWidth() / 8;
  for (size_t at = 0; at + width <= data.bytes.size(); at += width) {
    uint64_t bits = 0;
    std::memcpy(&bits, data.bytes.data() + at, width); // little-endian
    if ((bits & withoutSign) == pattern)
      return true;
  }
  return false;
}

std::unique_ptr<ModelFiles>
ModelFiles::open(StringRef path, bool allowAbsentData, std::string &error) {
  auto model = MappedFile::open(path, error);
  if (!model)
    return nullptr;
  std::unique_ptr<ModelFiles> files(new ModelFiles());
  files->allowAbsentData = allowAbsentData;
  files->modelPath = path.str();
  files->directory = llvm::sys::path::parent_path(path).str();
  files->files.push_back(std::move(model));
  return files;
}

std::vector<std::string> ModelFiles::paths() const {
  std::vector<std::string> result;
  for (const auto &file : files)
    result.push_back(file->path().str());
  return result;
}

/// Whether no shape is computed from a tensor, whatever is in it: masks,
/// weights and quantized weights.
static bool isOnlyData(RankedTensorType type) {
  Type element = type.getElementType();
  return type.getNumElements() > 1 &&
         (isComputedFloat(element) || element.getIntOrFloatBitWidth() <= 8);
}

bool ModelFiles::readExternal(const onnx::TensorProto &tensor, int64_t size,
                              TensorData &data, std::string &error,
                              Fault &fault) {
  std::string location;
  uint64_t offset = 0, length = 0;
  bool hasLength = false;
  for (const auto &entry : tensor.external_data()) {
    StringRef key = entry.key(), value = entry.value();
    if (key == "location") {
      location = value.str();
    } else if (key == "offset" || key == "length") {
      uint64_t number;
      if (value.getAsInteger(10, number) || number > INT64_MAX) {
        error = "external data: " + key.str() + " is \"" + value.str() +
                "\", expected a number from 0 to 2^63-1";
        return false;
      }
      (key == "offset" ? offset : length) = number;
      hasLength |= key == "length";
    } else if (key != "checksum") {
      error = "external data: unknown key \"" + key.str() +
              "\", expected location, offset, length or checksum";
      return false;
    }
  }
  if (hasLength && length != uint64_t(size)) {
    error = "external data: length is " + std::to_string(length) +
            " bytes, expected " + std::to_string(size);
    return false;
  }
  auto [entry, isNew] =
      externals.try_emplace(location, static_cast<int64_t>(files.size()));
  if (isNew) {
    std::string reason;
    auto file = MappedFile::openBeneath(directory, location, reason,
                                        /*absentIsFine=*/true);
    if (file && file->isAbsent() && !allowAbsentData) {
      file = nullptr;
      reason = "no such file beside the model";
      if (llvm::sys::fs::is_symlink_file(modelPath))
        reason += ", which is a symbolic link: give the file that it names";
      fault = Fault::NoFile;
    }
    if (!file) {
      externals.erase(entry);
      error = "external data \"" + location + "\": " + reason;
      return false;
    }
    files.push_back(std::move(file));
  }
  data.file = entry->second;
  data.offset = offset;
  if (files[data.file]->isAbsent()) {
    data.isAbsent = true;
    if (size == 0 || isOnlyData(data.type))
      return true;
    fault = Fault::NoFile;
    error = "external data \"" + location +
            "\" is absent, but the model's shapes may depend on it: expected "
            "it beside the model";
    return false;
  }
  ArrayRef<uint8_t> bytes = files[data.file]->bytes();
  if (offset > bytes.size() || uint64_t(size) > bytes.size() - offset) {
    error = "external data \"" + location + "\": offset " +
            std::to_string(offset) + " plus " + std::to_string(size) +
            " bytes is past the end, expected at most " +
            std::to_string(bytes.size());
    return false;
  }
  data.bytes = bytes.slice(offset, size);
  return true;
}

template <typename T, typename Field>
static std::vector<uint8_t> toBytes(const Field &field) {
  std::vector<uint8_t> bytes(size_t(field.size()) * sizeof(T));
  size_t at = 0;
  for (auto number : field) {
    T value = static_cast<T>(number);
    std::memcpy(bytes.data() + at, &value, sizeof(T));
    at += sizeof(T);
  }
  return bytes;
}

bool ModelFiles::readTyped(const onnx::TensorProto &tensor, int64_t count,
                           TensorData &data, std::string &error) {
  using Proto = onnx::TensorProto;
  int64_t found = 0;
  switch (tensor.data_type()) {
  case Proto::FLOAT:
    found = tensor.float_data_size();
    data.owned = toBytes<float>(tensor.float_data());
    break;
  case Proto::DOUBLE:
    found = tensor.double_data_size();
    data.owned = toBytes<double>(tensor.double_data());
    break;
  case Proto::INT64:
    found = tensor.int64_data_size();
    data.owned = toBytes<int64_t>(tensor.int64_data());
    break;
  case Proto::UINT32:
    found = tensor.uint64_data_size();
    data.owned = toBytes<uint32_t>(tensor.uint64_data());
    break;
  case Proto::UINT64:
    found = tensor.uint64_data_size();
    data.owned = toBytes<uint64_t>(tensor.uint64_data());
    break;
  case Proto::INT32:
    found = tensor.int32_data_size();
    data.owned = toBytes<int32_t>(tensor.int32_data());
    break;
  case Proto::INT16:
  case Proto::UINT16:
  case Proto::FLOAT16:
  case Proto::BFLOAT16:
    found = tensor.int32_data_size();
    data.owned = toBytes<uint16_t>(tensor.int32_data());
    break;
  default: // int8, uint8, bool, and bytes of codes
    found = tensor.int32_data_size();
    data.owned = toBytes<uint8_t>(tensor.int32_data());
    break;
  }
  int64_t expected =
      llvm::divideCeil(count, elementsPerByte(data.type.getElementType()));
  if (found != expected) {
    error = "tensor has " + std::to_string(found) + " numbers, expected " +
            std::to_string(expected);
    return false;
  }
  data.bytes = data.owned;
  return true;
}

std::optional<TensorData> ModelFiles::read(MLIRContext *context,
                                           const onnx::TensorProto &tensor,
                                           std::string &error, Fault &fault) {
  TensorData data;
  data.name = tensor.name();
  fault = Fault::Malformed;
  Type element = elementType(context, tensor.data_type());
  if (!element) {
    fault = Fault::UnsupportedType;
    error = "tensor has type " + dataTypeName(tensor.data_type());
    return std::nullopt;
  }
  if (tensor.has_segment()) {
    error = "tensor is one segment of several, which no exporter writes";
    return std::nullopt;
  }
  SmallVector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  std::string text =
      "[" +
      llvm::join(llvm::map_range(
                     shape, [](int64_t dim) { return std::to_string(dim); }),
                 ", ") +
      "]";
  auto size = tensorBytes(shape, element);
  if (!size || shape.size() > 64) {
    error = "shape " + text +
            " is negative or larger than 2^47 bytes or 64 dimensions";
    return std::nullopt;
  }
  data.type = RankedTensorType::get(shape, element);
  data.sizeBytes = *size;
  if (elementsPerByte(element) > 1) {
    size = llvm::divideCeil(*size, elementsPerByte(element));
    if (!readBytes(tensor, *size, text, data, error, fault))
      return std::nullopt;
    if ((data.isAbsent && data.sizeBytes > 0) ||
        (data.file >= 0 && data.sizeBytes > kMaxConstantBytes)) {
      data.isPacked = true;
      data.sizeBytes = *size;
      return data;
    }
    data.owned = unpack(data.bytes, data.sizeBytes, element);
    data.bytes = data.owned;
    data.file = -1;
    return data;
  }
  if (!readBytes(tensor, *size, text, data, error, fault))
    return std::nullopt;
  return data;
}

bool ModelFiles::readBytes(const onnx::TensorProto &tensor, int64_t size,
                           const std::string &shape, TensorData &data,
                           std::string &error, Fault &fault) {
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL)
    return readExternal(tensor, size, data, error, fault);
  if (tensor.has_raw_data()) {
    auto ref = PayloadRef::decode(tensor.raw_data());
    if (!ref || ref->kind == PayloadRef::Conflict) {
      error = "tensor has two payloads, expected one";
      return false;
    }
    int32_t type = tensor.data_type();
    bool other =
        (ref->kind == PayloadRef::Float && type != onnx::TensorProto::FLOAT) ||
        (ref->kind == PayloadRef::Double && type != onnx::TensorProto::DOUBLE);
    Type element = data.type.getElementType();
    uint64_t width = (element.getIntOrFloatBitWidth() + 7) / 8;
    if (!other && ref->kind != PayloadRef::Raw &&
        ref->length != uint64_t(size)) {
      error = "tensor has " + std::to_string(ref->length / width) +
              " numbers, expected " + std::to_string(size / int64_t(width)) +
              " for shape " + shape;
      return false;
    }
    if (other || ref->length != uint64_t(size)) {
      error = "payload has " + std::to_string(other ? 0 : ref->length) +
              " bytes, expected " + std::to_string(size) + " for shape " +
              shape + " of " + dataTypeName(type);
      return false;
    }
    data.file = 0;
    data.offset = ref->offset;
    data.bytes = modelBytes().slice(ref->offset, ref->length);
    return true;
  }
  return readTyped(tensor, data.type.getNumElements(), data, error);
}
