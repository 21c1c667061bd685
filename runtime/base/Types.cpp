//===- Types.cpp - data types, shapes, checked sizes ----------------------===//
//
// The table of element types; the order is that of kerf_dtype_t.
//
//===----------------------------------------------------------------------===//
#include "Types.h"

using namespace kerf::rt;

namespace {
struct TypeEntry {
  const char *name;
  size_t size;
};
constexpr TypeEntry types[] = {
    {"f32", 4},        {"f64", 8},       {"f16", 2},        {"bf16", 2},
    {"i8", 1},         {"i16", 2},       {"i32", 4},        {"i64", 8},
    {"u8", 1},         {"u16", 2},       {"u32", 4},        {"u64", 8},
    {"bool", 1},       {"f8e4m3fn", 1},  {"f8e4m3fnuz", 1}, {"f8e5m2", 1},
    {"f8e5m2fnuz", 1}, {"f8e8m0fnu", 1}, {"f4e2m1fn", 1},   {"i4", 1},
    {"u4", 1},         {"i2", 1},        {"u2", 1},         {"void8", 1}};
constexpr size_t numTypes = sizeof(types) / sizeof(types[0]);
static_assert(numTypes == kAnyCode + 1);
} // namespace

extern "C" size_t kerf_dtype_size(kerf_dtype_t dtype) {
  return static_cast<size_t>(dtype) < numTypes ? types[dtype].size : 0;
}
extern "C" const char *kerf_dtype_name(kerf_dtype_t dtype) {
  return static_cast<size_t>(dtype) < numTypes ? types[dtype].name : "?";
}

int kerf::rt::codeBits(kerf_dtype_t dtype) {
  if (dtype <= KERF_BOOL || dtype >= kAnyCode)
    return 0;
  return dtype >= KERF_I2 ? 2 : dtype >= KERF_F4E2M1FN ? 4 : 8;
}

bool kerf::rt::parseDType(std::string_view name, kerf_dtype_t &dtype) {
  for (size_t i = 0; i < kAnyCode; ++i)
    if (name == types[i].name) {
      dtype = static_cast<kerf_dtype_t>(i);
      return true;
    }
  return false;
}

Shape kerf::rt::denseStrides(const Shape &shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i > 1; --i)
    strides[i - 2] = mulChecked(strides[i - 1], shape[i - 1]);
  return strides;
}
