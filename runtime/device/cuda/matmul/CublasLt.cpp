//===- CublasLt.cpp - cuBLASLt, opened at run time ------------------------===//
#include "CublasLt.h"

#include "../driver/Driver.h"
#include "../driver/Find.h"

using namespace kerf::rt;

static CublasLt load() {
  CublasLt table;
  LibrarySearch search{
      "cuBLASLt", "KERF_CUBLASLT", {}, {"cublas", "cu13", "cu12"}};
  nameForDriver(search, "libcublasLt.so", Driver::get().version);
  OpenedLibrary library =
      requireLibrary(search, "matrix products on a GPU need cuBLASLt");
  table.path = library.path;
#define KERF_CUBLASLT_LOAD(member, name, arguments)                            \
  library.require(table.member, #name);
  KERF_CUBLASLT_FUNCTIONS(KERF_CUBLASLT_LOAD)
#undef KERF_CUBLASLT_LOAD
  library.find(table.getVersion, "cublasLtGetVersion");
  library.find(table.getStatusString, "cublasLtGetStatusString");
  return table;
}

const CublasLt &CublasLt::get() {
  static const CublasLt table = load();
  return table;
}

void CublasLt::check(lt::Status status, const char *what) const {
  if (status != lt::Success)
    failCall("cuBLASLt", what, status,
             getStatusString ? getStatusString(status) : nullptr);
}
