//===- Npy.cpp - NumPy's .npy files ---------------------------------------===//
//
// Magic, version, header length, a Python dict literal with descr,
// fortran_order and shape, then the data. The dict is read by key, with the few
// literal forms that NumPy writes.
//
//===----------------------------------------------------------------------===//
#include "Npy.h"

#include "../base/MappedFile.h"
#include "kerf/rt/run.h"

#include <algorithm>

#include <cstring>

using namespace kerf::rt;

namespace {
struct TypeCode {
  const char *code;
  kerf_dtype_t dtype;
};
constexpr TypeCode codes[] = {
    {"<f4", KERF_F32},  {"<f8", KERF_F64},  {"<f2", KERF_F16},
    {"<V2", KERF_BF16}, {"|i1", KERF_I8},   {"<i2", KERF_I16},
    {"<i4", KERF_I32},  {"<i8", KERF_I64},  {"|u1", KERF_U8},
    {"<u2", KERF_U16},  {"<u4", KERF_U32},  {"<u8", KERF_U64},
    {"|b1", KERF_BOOL}, {"|V2", KERF_BF16}, {"<V1", kAnyCode},
    {"|V1", kAnyCode},  {"<f1", kAnyCode}};

[[noreturn]] void bad(const std::string &reason) {
  throw Error(KERF_INVALID_ARGUMENT, reason);
}

// The text after `'key':` in the header.
std::string valueOf(const std::string &header, const char *key) {
  size_t at = header.find(cat("'", key, "'"));
  if (at == std::string::npos ||
      (at = header.find(':', at)) == std::string::npos)
    bad(cat("no '", key, "' in the header"));
  at = header.find_first_not_of(' ', at + 1);
  return at == std::string::npos ? "" : header.substr(at);
}

kerf_dtype_t parseDescr(const std::string &value) {
  std::string code =
      value.size() >= 5 && value[0] == '\'' ? value.substr(1, 3) : "";
  for (const TypeCode &entry : codes)
    if (value.size() > 4 && value[4] == '\'' && code == entry.code)
      return entry.dtype;
  if (value.size() > 1 && value[0] == '\'' && value[1] == '>')
    bad("numbers are big-endian, expected little-endian: "
        "numpy.save(FILE, a.astype(a.dtype.newbyteorder('<'))) writes them so");
  bad(cat("elements of NumPy's type ", value.substr(0, value.find(',')),
          ", expected bool, int8 to int64, uint8 to uint64, float16, float32, "
          "float64, bfloat16 or a type of 2 to 8 bits of ml_dtypes"));
}

Shape parseShape(const std::string &value) {
  Shape shape;
  size_t at = 1;
  if (value.empty() || value[0] != '(')
    bad("shape is not a tuple");
  while (at < value.size() && value[at] != ')') {
    if (value[at] == ' ' || value[at] == ',') {
      ++at;
      continue;
    }
    int64_t size = 0;
    size_t begin = at;
    for (; at < value.size() && value[at] >= '0' && value[at] <= '9'; ++at)
      size = addChecked(mulChecked(size, 10), value[at] - '0');
    if (at == begin)
      bad("shape is not a tuple of sizes");
    shape.push_back(size);
  }
  if (at >= value.size() || shape.size() > 32)
    bad("shape is not a tuple of sizes");
  return shape;
}

} // namespace

NpyView kerf::rt::parseNpy(const char *data, size_t size) {
  if (size < 10 || std::memcmp(data, "\x93NUMPY", 6) != 0)
    bad("not a .npy file");
  size_t prefix = data[6] == 1 ? 10 : 12;
  if (data[6] < 1 || data[6] > 3 || size < prefix)
    bad(cat("unsupported .npy version ", int(data[6])));
  uint32_t length = 0;
  std::memcpy(&length, data + 8, prefix == 10 ? 2 : 4);
  if (length > size - prefix)
    bad("the header is longer than the file");
  std::string header(data + prefix, length);
  NpyView view;
  view.dtype = parseDescr(valueOf(header, "descr"));
  view.shape = parseShape(valueOf(header, "shape"));
  view.fortran = valueOf(header, "fortran_order").rfind("True", 0) == 0;
  view.data = data + prefix + length;
  int64_t bytes = numBytes(view.shape, view.dtype);
  if (static_cast<uint64_t>(bytes) != size - prefix - length)
    bad(cat("has ", size - prefix - length,
            size - prefix - length == 1 ? " byte" : " bytes",
            " of data, shape ", shapeString(view.shape), " of ",
            kerf_dtype_name(view.dtype), " needs ", bytes));
  return view;
}

// Fortran order is the transpose of the reversed shape.
void kerf::rt::copyFortran(const NpyView &view, char *dst) {
  const Shape &shape = view.shape;
  // Sizes beside a 0 may have a product that does not fit.
  if (numElements(shape) == 0)
    return;
  int64_t elementBytes = dtypeSize(view.dtype);
  Shape index(shape.size(), 0), strides(shape.size(), elementBytes);
  for (size_t d = 1; d < shape.size(); ++d)
    strides[d] = strides[d - 1] * shape[d - 1];
  for (int64_t i = 0, n = numElements(shape); i < n; ++i) {
    int64_t from = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      from += index[d] * strides[d];
    std::memcpy(dst + i * elementBytes, view.data + from,
                static_cast<size_t>(elementBytes));
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

static void read(const std::string &path, HostTensor &tensor) {
  MappedFile file(path);
  NpyView view = parseNpy(file.data(), file.size());
  tensor.dtype = view.dtype;
  tensor.shape = view.shape;
  tensor.data.resize(static_cast<size_t>(numBytes(view.shape, view.dtype)));
  if (view.fortran)
    copyFortran(view, tensor.data.data());
  else if (!tensor.data.empty())
    std::memcpy(tensor.data.data(), view.data, tensor.data.size());
}

bool kerf::rt::readNpy(const std::string &path, HostTensor &tensor,
                       std::string &error) {
  try {
    read(path, tensor);
    return true;
  } catch (...) {
    Error caught = currentError();
    error = caught.code == KERF_IO_ERROR ? caught.message
                                         : path + ": " + caught.message;
    return false;
  }
}

bool kerf::rt::formatNpy(kerf_dtype_t dtype, const std::vector<int64_t> &shape,
                         const void *data, size_t bytes, std::string &file) {
  const char *code = codeBits(dtype) ? "|V1" : nullptr;
  for (const TypeCode &entry : codes)
    if (entry.dtype == dtype && !code)
      code = entry.code;
  if (!code)
    return false;
  std::string header =
      cat("{'descr': '", code, "', 'fortran_order': False, 'shape': (");
  for (size_t i = 0; i < shape.size(); ++i)
    header += std::to_string(shape[i]) + (i + 1 < shape.size() ? ", " : "");
  header += shape.size() == 1 ? ",), }" : "), }";
  size_t total = (10 + header.size() + 1 + 63) / 64 * 64;
  header.append(total - 10 - header.size() - 1, ' ');
  header += '\n';
  file.assign("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  file.append(static_cast<const char *>(data), bytes);
  return true;
}

// '/' and control characters become '_'.
static std::string npyName(const std::string &name) {
  std::string result;
  for (char c : name)
    result += c == '/' || static_cast<unsigned char>(c) < 32 ? '_' : c;
  if (result.empty() || result[0] == '.')
    result = "_" + result;
  return result.substr(0, 200);
}

std::vector<std::string>
kerf::rt::outputFileNames(const std::vector<std::string> &outputs) {
  std::vector<std::string> used;
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string name = npyName(outputs[i]);
    if (std::find(used.begin(), used.end(), name) != used.end())
      name += cat(".", i);
    used.push_back(name);
  }
  for (std::string &name : used)
    name += ".npy";
  return used;
}
