//===- Library.cpp - shared libraries opened at run time ------------------===//
//
// Never closed: thread pools and JIT code of these libraries outlive their
// users.
//
//===----------------------------------------------------------------------===//
#include "Library.h"

#include <dlfcn.h>

using namespace kerf::rt;

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// These libraries are not instrumented: the sanitizer sees their accesses, but
// not their synchronisation. CpuDevice.cpp reports our own team barrier to it.
extern "C" const char *__tsan_default_suppressions() {
  return "called_from_lib:libdnnl.so\nrace:libdnnl.so\n"
         "called_from_lib:libgomp.so\nrace:libgomp.so\n";
}
#endif
#endif

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
