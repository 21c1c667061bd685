//===- Nccl.cpp - NCCL, opened at run time --------------------------------===//
#include "Nccl.h"

#include "Find.h"

#include <climits>
#include <cstdlib>

using namespace kerf::rt;

nccl::Config kerf::rt::nccl::nonBlocking() {
  constexpr unsigned magic = 0xcafebeef, version = 21800;
  return {sizeof(Config), magic,   version, 0,       INT_MIN,
          INT_MIN,        INT_MIN, nullptr, INT_MIN, INT_MIN};
}

static Nccl load() {
  Nccl table;
  OpenedLibrary library = requireLibrary(
      {"NCCL", "KERF_NCCL", {"libnccl.so.2"}, {"nccl", "cu13", "cu12"}},
      "several GPUs need NCCL");
  table.path = library.path;
#define KERF_NCCL_LOAD(member, name, arguments)                                \
  table.member = reinterpret_cast<nccl::member##Fn>(library.symbol(#name));
#define KERF_NCCL_REQUIRE(member, name, arguments)                             \
  table.member = reinterpret_cast<nccl::member##Fn>(                           \
      library.require(#name, ": 2.18 or newer is needed"));
  KERF_NCCL_FUNCTIONS(KERF_NCCL_REQUIRE)
  KERF_NCCL_OPTIONAL(KERF_NCCL_LOAD)
#undef KERF_NCCL_LOAD
#undef KERF_NCCL_REQUIRE
  table.getErrorString = reinterpret_cast<const char *(*)(nccl::Result)>(
      library.symbol("ncclGetErrorString"));
  table.getLastError = reinterpret_cast<const char *(*)(nccl::Comm)>(
      library.symbol("ncclGetLastError"));
  table.getVersion(&table.version);
  if (table.version < 21800)
    throw Error(KERF_UNSUPPORTED_HOST,
                cat("NCCL at ", table.path, " is ", table.version / 10000, ".",
                    table.version % 10000 / 100, ", 2.18 or newer is needed"));
  return table;
}

const Nccl &Nccl::get() {
  static const Nccl table = load();
  return table;
}

bool Nccl::wantsWindows() const {
  auto is = [](const char *name, char value) {
    const char *given = std::getenv(name);
    return given && *given == value;
  };
  return memAlloc && memFree && windowRegister && windowDeregister &&
         version >= 22700 && !is("KERF_NCCL_REGISTER", '0') &&
         !is("KERF_NCCL_SYMMETRIC", '0') && !is("KERF_SHARE_GPU", '1');
}

std::string Nccl::describe(nccl::Result result, nccl::Comm comm) const {
  std::string text =
      getErrorString ? getErrorString(result) : cat("NCCL error ", result);
  const char *more = getLastError ? getLastError(comm) : nullptr;
  if (more && *more)
    text += cat(" (", more, ")");
  return text;
}

int kerf::rt::ncclTypeOf(kerf_dtype_t dtype) {
  switch (dtype) {
  case KERF_F32:
    return nccl::Float32;
  case KERF_F64:
    return nccl::Float64;
  case KERF_F16:
    return nccl::Float16;
  case KERF_BF16:
    return nccl::Bfloat16;
  case KERF_I8:
    return nccl::Int8;
  case KERF_U8:
    return nccl::Uint8;
  case KERF_I32:
    return nccl::Int32;
  case KERF_U32:
    return nccl::Uint32;
  case KERF_I64:
    return nccl::Int64;
  case KERF_U64:
    return nccl::Uint64;
  default:
    throw Error(KERF_BAD_PACKAGE,
                cat("NCCL reduces no ", kerf_dtype_name(dtype)));
  }
}

int kerf::rt::ncclReductionOf(Reduction reduction) {
  switch (reduction) {
  case Reduction::Sum:
    return nccl::Sum;
  case Reduction::Prod:
    return nccl::Prod;
  case Reduction::Max:
    return nccl::Max;
  case Reduction::Min:
    return nccl::Min;
  }
  return nccl::Sum;
}
