//===- Dnnl.cpp - oneDNN's C API, opened at run time ----------------------===//
//
// Version 2 only: the descriptors of version 3 are other structs.
//
//===----------------------------------------------------------------------===//
#include "Dnnl.h"

#include "../Library.h"

#include "kerf/rt/versions.h"

#include <mutex>

using namespace kerf::rt;

static Dnnl openDnnl() {
  Dnnl dnnl;
  SharedLibrary library("libdnnl.so.2");
  if (!library.handle) {
    dnnl.error = library.error;
    return dnnl;
  }
#define KERF_DNNL_LOAD(name)                                                   \
  dnnl.name = reinterpret_cast<decltype(dnnl.name)>(library.symbol(#name));    \
  if (!dnnl.name)                                                              \
    dnnl.error = "libdnnl.so.2 has no " #name;
  KERF_DNNL_FUNCTIONS(KERF_DNNL_LOAD)
#undef KERF_DNNL_LOAD
  if (dnnl.error.empty() && dnnl.dnnl_version()->major != 2)
    dnnl.error = cat("version ", dnnl.dnnl_version()->major, ", expected 2");
  return dnnl;
}

const Dnnl &Dnnl::get() {
  static const Dnnl dnnl = openDnnl();
  if (!dnnl.error.empty())
    throw Error(
        KERF_UNSUPPORTED_HOST,
        "oneDNN is needed for matmul and convolution (package libdnnl2): " +
            dnnl.error);
  return dnnl;
}

void Dnnl::compileProducts() const {
  static std::once_flag once;
  std::call_once(once, [&] {
    constexpr int64_t n = 4;
    float zeros[n * n] = {}, result[n * n];
    check(dnnl_sgemm('N', 'N', n, n, n, 1, zeros, n, zeros, n, 0, result, n),
          "a product");
  });
}

std::string kerf::rt::cpuLibraryVersion() {
  try {
    const dnnl_version_t &version = *Dnnl::get().dnnl_version();
    return cat("oneDNN ", version.major, ".", version.minor, ".",
               version.patch);
  } catch (const Error &error) {
    return error.what();
  }
}

void Dnnl::check(dnnl_status_t status, const char *what) {
  if (status == dnnl_success)
    return;
  const char *why = status == dnnl_out_of_memory       ? "out of memory"
                    : status == dnnl_invalid_arguments ? "invalid arguments"
                    : status == dnnl_unimplemented     ? "not implemented"
                                                       : "runtime error";
  throw Error(status == dnnl_out_of_memory ? KERF_OUT_OF_MEMORY
                                           : KERF_UNSUPPORTED_HOST,
              cat("oneDNN refuses ", what, ": ", why));
}

DnnlHandle<dnnl_memory_t> kerf::rt::makeMemory(const dnnl_memory_desc_t &desc,
                                               dnnl_engine_t engine,
                                               void *data) {
  const Dnnl &dnnl = Dnnl::get();
  dnnl_memory_t memory = nullptr;
  Dnnl::check(dnnl.dnnl_memory_create(&memory, &desc, engine,
                                      data ? data : DNNL_MEMORY_NONE),
              "memory");
  return {memory, dnnl.dnnl_memory_destroy};
}
