//===- mpi/MpiLibrary.cpp - opening Open MPI at run time ------------------===//
//
// The library is never closed: it starts threads and registers handlers. Its
// plug-ins look for its symbols, so they must be global.
//
//===----------------------------------------------------------------------===//
#include "MpiAbi.h"

#include "../../base/Error.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace kerf::rt;
using namespace kerf::rt::mpi;

Table kerf::rt::mpi::openLibrary() {
  const char *given = std::getenv("KERF_MPI");
  std::string name = given && *given ? given : "libmpi.so.40";
  void *library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    throw Error(KERF_UNSUPPORTED_HOST,
                cat("Open MPI cannot be opened: ", ::dlerror(),
                    "; install it (Debian: libopenmpi3), or name its "
                    "libmpi.so.40 in KERF_MPI"));
  Table table = {};
  auto find = [&](auto &entry, const char *symbol) {
    void *address = ::dlsym(library, symbol);
    if (!address)
      throw Error(KERF_UNSUPPORTED_HOST,
                  cat(name, " has no ", symbol,
                      ": it is not Open MPI 3 or later, the one MPI that is "
                      "supported"));
    entry = reinterpret_cast<std::decay_t<decltype(entry)>>(address);
  };
  find(table.commWorld, "ompi_mpi_comm_world");
  find(table.byte, "ompi_mpi_byte");
  find(table.errorsReturn, "ompi_mpi_errors_return");
  find(table.requestNull, "ompi_request_null");
  find(table.Init_thread, "MPI_Init_thread");
  find(table.Initialized, "MPI_Initialized");
  find(table.Finalize, "MPI_Finalize");
  find(table.Comm_rank, "MPI_Comm_rank");
  find(table.Comm_size, "MPI_Comm_size");
  find(table.Comm_idup, "MPI_Comm_idup");
  find(table.Comm_set_errhandler, "MPI_Comm_set_errhandler");
  find(table.Comm_get_attr, "MPI_Comm_get_attr");
  find(table.Isend, "MPI_Isend");
  find(table.Irecv, "MPI_Irecv");
  find(table.Test, "MPI_Test");
  find(table.Cancel, "MPI_Cancel");
  find(table.Request_free, "MPI_Request_free");
  find(table.Get_count, "MPI_Get_count");
  find(table.Error_string, "MPI_Error_string");
  return table;
}
