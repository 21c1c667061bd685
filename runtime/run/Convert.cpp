//===- Convert.cpp - elements of one type become those of another ---------===//
//
// A conversion is allowed when it keeps every value: integers into wider
// ranges, into floats whose significand has room for them, floats into wider
// floats.
//
//===----------------------------------------------------------------------===//
#include "Convert.h"

#include "../base/Types.h"

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

/// Calls visit with a value of the C++ type that stands for `dtype`.
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
  default:
    return nullptr;
  }
}

/// The bits above a code of `bits` bits are dropped.
template <int bits> void keepCodes(const char *from, char *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = static_cast<char>(from[i] & ((1 << bits) - 1));
}

/// What NumPy calls a type; empty: nothing.
std::string numpyName(kerf_dtype_t dtype) {
  switch (dtype) {
  case KERF_F32:
    return "float32";
  case KERF_F64:
    return "float64";
  case KERF_F16:
    return "float16";
  case KERF_BF16:
    return "";
  case KERF_BOOL:
    return "bool";
  default:
    if (codeBits(dtype))
      return "";
    break;
  }
  std::string name = kerf_dtype_name(dtype); // i64, u8
  return (name[0] == 'i' ? "int" : "uint") + name.substr(1);
}
} // namespace

ConvertFn kerf::rt::exactConversion(kerf_dtype_t from, kerf_dtype_t to) {
  if (int bits = codeBits(to)) {
    if (from != to && from != kAnyCode)
      return nullptr;
    return bits == 8 ? keepCodes<8> : bits == 4 ? keepCodes<4> : keepCodes<2>;
  }
  return dispatch(from, [&](auto source) {
    return dispatch(to, [&](auto target) {
      return conversion<decltype(source), decltype(target)>();
    });
  });
}

bool kerf::rt::isInteger(kerf_dtype_t dtype) {
  return dtype >= KERF_I8 && dtype <= KERF_U64;
}

std::string kerf::rt::doesNotHold(kerf_dtype_t to, kerf_dtype_t from) {
  std::string name = numpyName(to);
  name = to == KERF_BF16 ? "ml_dtypes.bfloat16" : "\"" + name + "\"";
  return cat(", which does not hold every ", kerf_dtype_name(from),
             name.size() < 3
                 ? ""
                 : "; NumPy's .astype(" + name + ") converts what fits");
}
