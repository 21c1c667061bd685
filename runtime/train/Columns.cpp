//===- Columns.cpp - samples meet the inputs of a step --------------------===//
//
// See Data.h. A conversion is allowed when it keeps every value: integers into
// wider ranges, into floats whose significand has room for them, floats into
// wider floats.
//
//===----------------------------------------------------------------------===//
#include "Data.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

using namespace kerf::rt;

namespace {
struct Half {
  _Float16 value;
  operator float() const { return static_cast<float>(value); }
};
struct BFloat {
  uint16_t bits;
  operator float() const {
    uint32_t word = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
};
struct Bool {
  uint8_t bits;
  operator uint8_t() const { return bits != 0; }
};

template <typename From, typename To> constexpr bool isExact() {
  if constexpr (std::is_same_v<From, To>)
    return true;
  else if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat>)
    return std::is_floating_point_v<To>;
  else if constexpr (std::is_same_v<From, Bool>)
    return std::is_arithmetic_v<To>;
  else if constexpr (!std::is_arithmetic_v<To>)
    return false;
  else if constexpr (std::is_floating_point_v<From>)
    return std::is_floating_point_v<To> && sizeof(To) >= sizeof(From);
  else if constexpr (std::is_floating_point_v<To>)
    return std::numeric_limits<From>::digits <= std::numeric_limits<To>::digits;
  else // integers
    return (std::is_signed_v<To> || std::is_unsigned_v<From>) &&
           std::numeric_limits<From>::digits <= std::numeric_limits<To>::digits;
}

template <typename From, typename To>
void convert(const char *from, char *to, int64_t count) {
  if constexpr (std::is_same_v<From, To>) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(To));
  } else {
    for (int64_t i = 0; i < count; ++i) {
      From value;
      std::memcpy(&value, from + i * sizeof(From), sizeof(From));
      To result = static_cast<To>(value);
      std::memcpy(to + i * sizeof(To), &result, sizeof(To));
    }
  }
}

template <typename From, typename To> ConvertFn conversion() {
  if constexpr (isExact<From, To>())
    return convert<From, To>;
  else
    return nullptr;
}

/// Calls visit with a value of the C++ type of `dtype`.
template <typename Visit> ConvertFn dispatch(kerf_dtype_t dtype, Visit visit) {
  switch (dtype) {
  case KERF_F32:
    return visit(float());
  case KERF_F64:
    return visit(double());
  case KERF_F16:
    return visit(Half());
  case KERF_BF16:
    return visit(BFloat());
  case KERF_I8:
    return visit(int8_t());
  case KERF_I16:
    return visit(int16_t());
  case KERF_I32:
    return visit(int32_t());
  case KERF_I64:
    return visit(int64_t());
  case KERF_U8:
    return visit(uint8_t());
  case KERF_U16:
    return visit(uint16_t());
  case KERF_U32:
    return visit(uint32_t());
  case KERF_U64:
    return visit(uint64_t());
  case KERF_BOOL:
    return visit(Bool());
  }
  return nullptr;
}

std::string typed(kerf_dtype_t dtype, const Shape &shape) {
  return cat(kerf_dtype_name(dtype), " ", shapeString(shape));
}

[[noreturn]] void bad(const DataSet &data, const std::string &reason) {
  throw Error(KERF_INVALID_ARGUMENT, data.path + ": " + reason);
}

std::string listOf(const std::vector<DataArray> &arrays) {
  std::string text;
  for (const DataArray &array : arrays)
    text += cat(text.empty() ? "" : ", ", "\"", array.name, "\" (",
                typed(array.dtype, array.shape), ")");
  return text;
}

ConvertFn requireExact(const DataSet &data, const DataArray &array,
                       const DataInput &input) {
  if (ConvertFn fn = exactConversion(array.dtype, input.dtype))
    return fn;
  bad(data,
      cat("array \"", array.name, "\" is ", typed(array.dtype, array.shape),
          ", input \"", input.name, "\" expects ", kerf_dtype_name(input.dtype),
          ", which does not hold every ", kerf_dtype_name(array.dtype)));
}

Samples bindArrays(const DataSet &data, const std::vector<DataInput> &inputs) {
  Samples samples;
  samples.count = -1;
  const DataArray *first = nullptr;
  for (const DataInput &input : inputs) {
    auto it = std::find_if(
        data.arrays.begin(), data.arrays.end(),
        [&](const DataArray &array) { return array.name == input.name; });
    if (it == data.arrays.end())
      bad(data, cat("no array for ", input.isLabels ? "labels" : "input", " \"",
                    input.name, "\" (", typed(input.dtype, input.shape),
                    "), there are: ", listOf(data.arrays)));
    const DataArray &array = *it;
    if (!array.error.empty())
      bad(data, array.error);
    Shape sample(input.shape.begin() + 1, input.shape.end());
    if (array.shape.empty() ||
        !std::equal(array.shape.begin() + 1, array.shape.end(), sample.begin(),
                    sample.end())) {
      std::string expected = "N";
      for (int64_t size : sample)
        expected += cat("x", size);
      bad(data, cat("array \"", array.name, "\" has shape ",
                    shapeString(array.shape), ", input \"", input.name,
                    "\" expects ", expected, " (N samples)"));
    }
    if (!first) {
      first = &array;
      samples.count = array.shape[0];
    }
    if (array.shape[0] != samples.count)
      bad(data, cat("array \"", array.name, "\" has ", array.shape[0],
                    " samples, \"", first->name, "\" has ", samples.count));
    Column column;
    column.name = input.name;
    column.dtype = input.dtype;
    column.data = array.data;
    column.elements = numElements(sample);
    column.strideBytes = column.elements * dtypeSize(array.dtype);
    column.convert = requireExact(data, array, input);
    column.isLabels = input.isLabels;
    column.owner = array.owner;
    samples.columns.push_back(std::move(column));
  }
  return samples;
}

Samples bindTokens(const DataSet &data, const std::vector<DataInput> &inputs) {
  const DataArray &tokens = data.arrays.front();
  const DataInput *text = nullptr;
  for (const DataInput &input : inputs) {
    if (input.isLabels)
      continue;
    if (text || !isInteger(input.dtype) || input.shape.size() != 2)
      bad(data, cat("tokens can only feed a model with one input, integers of "
                    "shape batch x sequence; ",
                    text ? "there are " : "there is ",
                    text ? cat("\"", text->name, "\" and ") : "", "\"",
                    input.name, "\" (", typed(input.dtype, input.shape), ")"));
    text = &input;
  }
  if (!text)
    bad(data, "the model has no input for tokens");
  int64_t length = text->shape[1];
  if (data.sequenceLength > 0 && data.sequenceLength != length)
    bad(data, cat("--sequence-length is ", data.sequenceLength, ", input \"",
                  text->name, "\" has sequences of ", length));
  Samples samples;
  samples.count = length > 0 ? (tokens.shape[0] - 1) / length : 0;
  if (samples.count < 1)
    bad(data, cat("has ", tokens.shape[0], " tokens, a sequence of ", length,
                  " and its labels need ", length + 1));
  for (const DataInput &input : inputs) {
    if (input.isLabels && (input.shape.size() != 2 || input.shape[1] != length))
      bad(data, cat("labels \"", input.name, "\" are ",
                    typed(input.dtype, input.shape),
                    ", next tokens are one for each of the ", length,
                    " of a sequence"));
    Column column;
    column.name = input.name;
    column.dtype = input.dtype;
    column.data = tokens.data + (input.isLabels ? dtypeSize(tokens.dtype) : 0);
    column.elements = length;
    column.strideBytes = length * dtypeSize(tokens.dtype);
    column.convert = requireExact(data, tokens, input);
    column.isLabels = input.isLabels;
    column.owner = tokens.owner;
    samples.columns.push_back(std::move(column));
  }
  return samples;
}
} // namespace

ConvertFn kerf::rt::exactConversion(kerf_dtype_t from, kerf_dtype_t to) {
  return dispatch(from, [&](auto source) {
    return dispatch(to, [&](auto target) {
      return conversion<decltype(source), decltype(target)>();
    });
  });
}

bool kerf::rt::isInteger(kerf_dtype_t dtype) {
  return dtype >= KERF_I8 && dtype <= KERF_U64;
}

Samples kerf::rt::bindColumns(const DataSet &data,
                              const std::vector<DataInput> &inputs) {
  if (inputs.empty())
    bad(data, "the model has no inputs to feed");
  for (const DataInput &input : inputs)
    if (input.shape.empty() || input.shape[0] != inputs[0].shape[0])
      bad(data,
          cat("input \"", input.name, "\" has shape ", shapeString(input.shape),
              ", expected its first dimension to be the batch of ",
              inputs[0].shape.empty() ? 0 : inputs[0].shape[0]));
  return data.isTokens ? bindTokens(data, inputs) : bindArrays(data, inputs);
}
