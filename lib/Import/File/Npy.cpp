//===- Npy.cpp - read a NumPy array ---------------------------------------===//
//
// The header is a Python dictionary of three known keys; only what NumPy itself
// writes is accepted.
//
//===----------------------------------------------------------------------===//
#include "Npy.h"
#include "Tensors.h"

#include "kerf/Support/DescribeType.h"
#include "kerf/Support/MappedFile.h"
#include "kerf/Support/NarrowTypes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"

using namespace kerf;
using namespace kerf::onnx_import;
using namespace mlir;

/// `expected`: what bytes without a type are codes of.
static Type npyType(MLIRContext *context, StringRef code, Type expected) {
  if (code == "<V1" || code == "|V1" || code == "<f1") // by ml_dtypes
    return isNarrow(expected) || expected.isUnsignedInteger(8) ? expected
                                                               : Type();
  return llvm::StringSwitch<Type>(code)
      .Case("<f4", Float32Type::get(context))
      .Case("<f8", Float64Type::get(context))
      .Case("<f2", Float16Type::get(context))
      .Case("<i8", IntegerType::get(context, 64))
      .Case("<i4", IntegerType::get(context, 32))
      .Case("<i2", IntegerType::get(context, 16))
      .Case("|i1", IntegerType::get(context, 8))
      .Case("|b1", IntegerType::get(context, 1))
      .Case("|u1", IntegerType::get(context, 8, IntegerType::Unsigned))
      .Case("<u2", IntegerType::get(context, 16, IntegerType::Unsigned))
      .Case("<u4", IntegerType::get(context, 32, IntegerType::Unsigned))
      .Case("<u8", IntegerType::get(context, 64, IntegerType::Unsigned))
      // NumPy has no bfloat16: two bytes of no type.
      .Cases({"<V2", "|V2"}, BFloat16Type::get(context))
      .Default(Type());
}

/// The text after `'key':` in a header.
static StringRef valueOf(StringRef header, StringRef key) {
  size_t at = header.find(("'" + key + "':").str());
  if (at == StringRef::npos)
    return {};
  return header.drop_front(at + key.size() + 3).ltrim();
}

DenseElementsAttr kerf::onnx_import::readNpy(MLIRContext *context,
                                             StringRef path, Type expected,
                                             std::string &error) {
  auto file = MappedFile::open(path, error);
  if (!file) {
    error = path.str() + ": " + error;
    return {};
  }
  auto fail = [&](const Twine &reason) {
    error = (path + ": " + reason).str();
    return DenseElementsAttr();
  };
  ArrayRef<uint8_t> bytes = file->bytes();
  StringRef text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  if (text.size() < 12 || !text.starts_with("\x93NUMPY"))
    return fail("not a NumPy array (.npy)");
  bool wide = text[6] > 1;
  size_t length = wide ? llvm::support::endian::read32le(bytes.data() + 8)
                       : llvm::support::endian::read16le(bytes.data() + 8);
  size_t start = wide ? 12 : 10;
  if (length > text.size() - start)
    return fail("header is longer than the file");
  StringRef header = text.substr(start, length);
  Type element = npyType(
      context, valueOf(header, "descr").split(',').first.trim("' "), expected);
  if (!element)
    return fail("element type " + valueOf(header, "descr").split(',').first +
                " is not supported");
  if (!valueOf(header, "fortran_order").starts_with("False"))
    return fail("array is in Fortran order, expected C order");
  SmallVector<int64_t> shape;
  SmallVector<StringRef> sizes;
  valueOf(header, "shape")
      .split(')')
      .first.ltrim("(")
      .split(sizes, ',', -1, false);
  for (StringRef size : sizes) {
    int64_t number;
    if (size.trim().empty())
      continue;
    if (size.trim().getAsInteger(10, number))
      return fail("shape is not a tuple of numbers");
    shape.push_back(number);
  }
  auto size = tensorBytes(shape, element);
  if (!size || uint64_t(*size) != text.size() - start - length)
    return fail("array has " + Twine(text.size() - start - length) +
                " bytes, expected " + Twine(size.value_or(-1)));
  TensorData data;
  data.type = RankedTensorType::get(shape, element);
  data.bytes = bytes.slice(start + length, *size);
  unsigned width = element.getIntOrFloatBitWidth();
  if (isNarrow(element) && width < 8) { // the code is in the low bits
    data.owned = data.bytes.vec();
    for (uint8_t &code : data.owned)
      code &= (1 << width) - 1;
    data.bytes = data.owned;
  }
  return toElements(data);
}

DenseElementsAttr kerf::onnx_import::parseConstant(MLIRContext *context,
                                                   StringRef text, Type element,
                                                   bool isScalar,
                                                   std::string &error) {
  if (text.consume_front("@")) {
    DenseElementsAttr array = readNpy(context, text, element, error);
    if (!array || array.getElementType() == element)
      return array;
    auto from = dyn_cast<IntegerType>(array.getElementType());
    auto to = dyn_cast<IntegerType>(element);
    if (!from || !to || from.getWidth() > to.getWidth()) {
      error = text.str() + ": elements are " +
              describeType(array.getElementType()) + ", expected " +
              describeType(element);
      return {};
    }
    return array.mapValues(element, [&](const APInt &value) {
      return from.isUnsigned() || from.getWidth() == 1
                 ? value.zextOrTrunc(to.getWidth())
                 : value.sextOrTrunc(to.getWidth());
    });
  }
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  SmallVector<int64_t> shape;
  if (!isScalar || parts.size() != 1)
    shape.push_back(int64_t(parts.size()));
  SmallVector<Attribute> values;
  for (StringRef part : parts) {
    part = part.trim();
    if (element.isInteger(1))
      part = llvm::StringSwitch<StringRef>(part)
                 .Cases({"true", "True"}, "1")
                 .Cases({"false", "False"}, "0")
                 .Default(part);
    int64_t integer;
    double real;
    if (auto type = dyn_cast<FloatType>(element);
        type && !part.empty() && !part.getAsDouble(real)) {
      values.push_back(FloatAttr::get(type, real));
    } else if (auto type = dyn_cast<IntegerType>(element);
               type && !part.getAsInteger(10, integer)) {
      APInt value(type.getWidth(), static_cast<uint64_t>(integer),
                  /*isSigned=*/true, /*implicitTrunc=*/true);
      if (type.isUnsigned()
              ? static_cast<int64_t>(value.getZExtValue()) != integer
          : type.getWidth() > 1 ? value.getSExtValue() != integer
                                : integer != 0 && integer != 1) {
        error = "\"" + part.str() + "\" is out of the range of " +
                describeType(element);
        return {};
      }
      values.push_back(IntegerAttr::get(type, value));
    } else {
      error = "\"" + part.str() + "\" is no " +
              (isa<FloatType>(element) ? "number" : "integer") +
              "; expected @FILE.npy or " +
              (element.isInteger(1) ? "true, false, 1 or 0, of type "
                                    : "numbers of type ") +
              describeType(element);
      return {};
    }
  }
  return DenseElementsAttr::get(RankedTensorType::get(shape, element), values);
}

std::string kerf::onnx_import::misfitOf(DenseElementsAttr value, StringRef text,
                                        const ModelValue &input) {
  ArrayRef<int64_t> shape = value.getType().getShape();
  bool fits = !input.hasShape || shape.size() == input.dims.size();
  for (size_t i = 0; fits && i < input.dims.size(); ++i)
    fits = input.dims[i].size < 0 || input.dims[i].size == shape[i];
  if (fits)
    return "";
  std::string found;
  if (text.starts_with("@")) {
    llvm::raw_string_ostream stream(found);
    stream << text.drop_front() << " is [";
    llvm::interleaveComma(shape, stream);
    stream << "]";
  } else {
    int64_t count = value.getNumElements();
    found = "has " + std::to_string(count) +
            (count == 1 ? " element" : " elements");
  }
  std::string wanted;
  llvm::raw_string_ostream stream(wanted);
  auto writeDim = [&](const ModelValue::Dim &dim) {
    stream << dim.symbol;
    if (dim.size >= 0)
      stream << (dim.symbol.empty() ? "" : "=") << dim.size;
  };
  stream << "[";
  llvm::interleaveComma(input.dims, stream, writeDim);
  stream << "]";
  return found + ", input \"" + input.name + "\" is " +
         (input.dims.empty() ? "one number" : wanted);
}
