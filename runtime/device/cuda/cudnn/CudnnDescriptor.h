//===- CudnnDescriptor.h - descriptors of cuDNN's back end ------*- C++ -*-===//
//
// Everything in cuDNN's graph API is a descriptor with numbered attributes that
// is finalized before it is used.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_CUDNN_CUDNNDESCRIPTOR_H
#define KERF_RUNTIME_DEVICE_CUDA_CUDNN_CUDNNDESCRIPTOR_H

#include "../../../base/Types.h"
#include "Cudnn.h"

#include <utility>

namespace kerf::rt {

inline int dnnType(kerf_dtype_t dtype) {
  switch (dtype) {
  case KERF_F32:
    return dnn::Float;
  case KERF_F64:
    return dnn::Double;
  case KERF_F16:
    return dnn::Half;
  case KERF_BF16:
    return dnn::Bfloat16;
  case KERF_I32:
    return dnn::Int32;
  case KERF_BOOL:
    return dnn::Boolean;
  default:
    throw Error(KERF_BAD_PACKAGE,
                cat("cuDNN takes no ", kerf_dtype_name(dtype)));
  }
}

/// A descriptor of the back end.
class DnnDescriptor {
public:
  DnnDescriptor(const Cudnn &library, int type) : library(&library) {
    library.check(library.createDescriptor(type, &raw), "a descriptor");
  }
  DnnDescriptor(DnnDescriptor &&other) noexcept
      : library(other.library), raw(other.raw) {
    other.raw = nullptr;
  }
  DnnDescriptor &operator=(DnnDescriptor &&other) noexcept {
    std::swap(library, other.library);
    std::swap(raw, other.raw);
    return *this;
  }
  ~DnnDescriptor() {
    if (raw)
      library->destroyDescriptor(raw);
  }
  dnn::Descriptor get() const { return raw; }
  dnn::Status trySet(int name, int type, const void *values,
                     int64_t count = 1) {
    return library->setAttribute(raw, name, type, count, values);
  }
  void set(int name, int type, const void *values, int64_t count = 1) {
    library->check(trySet(name, type, values, count), "an attribute");
  }
  void setInts(int name, const Shape &values) {
    set(name, dnn::TypeInt64, values.data(),
        static_cast<int64_t>(values.size()));
  }
  void setInt(int name, int64_t value) { set(name, dnn::TypeInt64, &value); }
  void setEnum(int name, int type, int value) { set(name, type, &value); }
  void setHandle(int name, const DnnDescriptor &other) {
    dnn::Descriptor descriptor = other.get();
    set(name, dnn::TypeBackendDescriptor, &descriptor);
  }
  dnn::Status tryFinalize() { return library->finalize(raw); }
  void finalize(const char *what) { library->check(tryFinalize(), what); }

private:
  const Cudnn *library;
  dnn::Descriptor raw = nullptr;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_CUDNN_CUDNNDESCRIPTOR_H
