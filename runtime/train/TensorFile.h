//===- TensorFile.h - checkpoints and safetensors ---------------*- C++ -*-===//
//
// Both are safetensors files, written to a temporary file and renamed, with one
// tensor in memory at a time. The metadata of a checkpoint hold the position of
// the run and a hash (XXH3-64) of the whole file with the hash's own 16 digits
// as zeros: any damage is noticed before data is used.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_TRAIN_TENSORFILE_H
#define KERF_RT_TRAIN_TENSORFILE_H

#include "../package/Safetensors.h"

#include <functional>

namespace kerf::rt {

struct NamedTensor {
  std::string name;
  kerf_dtype_t dtype;
  Shape shape;
};
/// Fills `data` with tensor number `index`.
using TensorReader = std::function<void(size_t index, std::vector<char> &data)>;
using Metadata = std::map<std::string, std::string>;

/// Throws KERF_IO_ERROR; then nothing has changed. `hashed`: adds "xxh3".
void writeTensorFile(const std::string &path,
                     const std::vector<NamedTensor> &tensors,
                     const TensorReader &read, Metadata metadata, bool hashed);

/// Throws KERF_PROGRAM_FAILURE naming the tensor and the first of its elements
/// that is infinite or no number. Integers are finite.
void requireFinite(const NamedTensor &tensor, const char *data, int64_t step);

/// 16 lower-case digits.
std::string hexDigits(uint64_t number);

/// A hashed file, checked. Throws KERF_INVALID_ARGUMENT or KERF_IO_ERROR with
/// the reason, which does not name the file.
Safetensors openHashed(const std::string &path);

} // namespace kerf::rt

#endif // KERF_RT_TRAIN_TENSORFILE_H
