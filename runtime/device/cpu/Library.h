//===- Library.h - shared libraries opened at run time ----------*- C++ -*-===//
#ifndef KERF_RT_DEVICE_CPU_LIBRARY_H
#define KERF_RT_DEVICE_CPU_LIBRARY_H

#include <string>

namespace kerf::rt {

/// dlopen of the first name that loads; stays open for the process. `handle` is
/// null and `error` says why when none does.
struct SharedLibrary {
  void *handle = nullptr;
  std::string error;
  explicit SharedLibrary(const char *name);
  void *symbol(const char *name) const;
};

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CPU_LIBRARY_H
