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
  library.require(table.member, #name);
  KERF_CUDNN_FUNCTIONS(KERF_CUDNN_LOAD)
#undef KERF_CUDNN_LOAD
  library.find(table.getVersion, "cudnnGetVersion");
  library.find(table.getErrorString, "cudnnGetErrorString");
  return table;
}

const Cudnn &Cudnn::get() {
  static const Cudnn table = load();
  return table;
}

void Cudnn::check(dnn::Status status, const char *what) const {
  if (status != dnn::Success)
    failCall("cuDNN", what, status,
             getErrorString ? getErrorString(status) : nullptr);
}
