//===- Cudnn.cpp - cuDNN's graph API, opened at run time ------------------===//
#include "Cudnn.h"

#include "../../../base/Error.h"
#include "../driver/Find.h"

using namespace kerf::rt;

static Cudnn load() {
  Cudnn table;
  OpenedLibrary library = requireLibrary(
      {"cuDNN", "KERF_CUDNN", {"libcudnn.so.9"}, {"cudnn", "cu13", "cu12"}},
      "convolutions on a GPU need cuDNN 9");
  table.path = library.path;
#define KERF_CUDNN_LOAD(member, name, arguments)                               \
  table.member = reinterpret_cast<dnn::member##Fn>(library.require(#name));
  KERF_CUDNN_FUNCTIONS(KERF_CUDNN_LOAD)
#undef KERF_CUDNN_LOAD
  table.getVersion =
      reinterpret_cast<size_t (*)()>(library.symbol("cudnnGetVersion"));
  table.getErrorString = reinterpret_cast<const char *(*)(dnn::Status)>(
      library.symbol("cudnnGetErrorString"));
  return table;
}

const Cudnn &Cudnn::get() {
  static const Cudnn table = load();
  return table;
}

void Cudnn::check(dnn::Status status, const char *what) const {
  if (status != dnn::Success)
    throw Error(KERF_PROGRAM_FAILURE,
                cat("cuDNN: ", what, " failed: ",
                    getErrorString ? getErrorString(status) : "status ",
                    getErrorString ? "" : std::to_string(status)));
}
