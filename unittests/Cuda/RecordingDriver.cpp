//===- RecordingDriver.cpp - the recording driver, from tests -------------===//
#include "RecordingDriver.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

using namespace kerf::rt::test;

namespace {
// Before anything asks for a driver.
struct Environment {
  void *library = nullptr;
  Environment() {
    ::setenv("KERF_CUDA_DRIVER", KERF_RECORDING_LIBRARY, 1);
    ::setenv("KERF_NCCL", KERF_RECORDING_LIBRARY, 1);
    ::setenv("KERF_CUPTI", KERF_RECORDING_LIBRARY, 1);
    ::unsetenv("KERF_CUDA_DEVICES");
    ::unsetenv("KERF_SHARE_GPU");
    library = ::dlopen(KERF_RECORDING_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      std::fprintf(stderr, "%s\n", ::dlerror());
      std::abort();
    }
  }
  template <typename Fn> Fn *function(const char *name) const {
    return reinterpret_cast<Fn *>(::dlsym(library, name));
  }
} environment;
} // namespace

RecordingDriver::RecordingDriver(const std::string &settings) {
  environment.function<void()>("kerf_recording_reset")();
  configure(settings);
}

void RecordingDriver::configure(const std::string &settings) {
  environment.function<void(const char *)>("kerf_recording_configure")(
      settings.c_str());
}

std::string RecordingDriver::report() const {
  return environment.function<const char *()>("kerf_recording_report")();
}

std::string RecordingDriver::dump() const {
  return environment.function<const char *()>("kerf_recording_dump")();
}
