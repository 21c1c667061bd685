//===- Library.cpp - shared libraries opened at run time ------------------===//
//
// Never closed: thread pools and JIT code of these libraries outlive their users.
//
//===----------------------------------------------------------------------===//
#include "Library.h"

#include <dlfcn.h>

using namespace kerf::rt;

SharedLibrary::SharedLibrary(const char *name)
    : handle(::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
  if (!handle) {
    const char *why = ::dlerror();
    error = why ? why : "unknown error";
  }
}

void *SharedLibrary::symbol(const char *name) const {
  return handle ? ::dlsym(handle, name) : nullptr;
}
