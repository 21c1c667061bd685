//===- Arrays.h - arrays of .npy and .npz files, where they lie -*- C++ -*-===//
#ifndef KERF_RT_RUN_ARRAYS_H
#define KERF_RT_RUN_ARRAYS_H

#include "../base/Types.h"

#include <memory>
#include <string>
#include <vector>

namespace kerf::rt {

/// A dense array; `data` may be unaligned and lives as long as `owner`.
struct DataArray {
  std::string name;
  kerf_dtype_t dtype = KERF_F32;
  Shape shape;
  const char *data = nullptr;
  std::shared_ptr<const void> owner;
  /// Why it cannot be read; only an error where an input asks for it.
  std::string error = {};
};

bool endsWith(const std::string &text, const char *ending);
/// "x" of "x.npy".
std::string withoutEnding(const std::string &name);

/// An array over .npy bytes that `owner` keeps. Throws KERF_INVALID_ARGUMENT
/// without a file name in front.
DataArray npyArray(const std::string &name, const char *data, size_t size,
                   std::shared_ptr<const void> owner);

/// What `make` gives, or where it throws an array with the reason, which names
/// `file`.
template <typename Make>
DataArray readableArray(const std::string &file, Make make) {
  try {
    return make();
  } catch (const Error &error) {
    DataArray array;
    array.name = withoutEnding(file);
    array.error = file + ": " + error.message;
    return array;
  }
}

/// The members of an .npz archive, in its order. Throws KERF_IO_ERROR naming
/// the file, KERF_INVALID_ARGUMENT without it.
std::vector<DataArray> openNpz(const std::string &path);

} // namespace kerf::rt

#endif // KERF_RT_RUN_ARRAYS_H
