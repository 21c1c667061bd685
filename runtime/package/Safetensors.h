//===- Safetensors.h - named tensors in a mapped file -----------*- C++ -*-===//
//
// The safetensors container: 8 bytes of header length, a JSON header of dtype,
// shape and byte range per name, then the data. Nothing is copied.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_PACKAGE_SAFETENSORS_H
#define KERF_RUNTIME_PACKAGE_SAFETENSORS_H

#include "../base/MappedFile.h"
#include "../base/Types.h"

#include <map>
#include <memory>
#include <string>

namespace kerf::rt {

class Safetensors {
public:
  struct Tensor {
    kerf_dtype_t dtype;
    Shape shape;
    const char *data;
    int64_t bytes;
  };

  Safetensors() = default;
  /// Throws KERF_BAD_PACKAGE naming `name` when the header is not right.
  Safetensors(std::shared_ptr<MappedFile> file, const std::string &name);

  /// nullptr if there is none of this name.
  const Tensor *find(const std::string &name) const;
  const std::map<std::string, Tensor> &all() const { return tensors; }
  /// The free text of `__metadata__`.
  const std::map<std::string, std::string> &metadata() const { return notes; }

private:
  std::shared_ptr<MappedFile> file;
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> notes;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_PACKAGE_SAFETENSORS_H
