//===- MpiAbi.h - the used part of Open MPI's ABI ---------------*- C++ -*-===//
//
// Open MPI 3 to 5 (libmpi.so.40): handles are pointers to objects of the
// library, predefined handles are addresses of exported objects. Declared here
// so that neither building nor installing needs mpi.h; MpiAbiTest compares
// every line with the real header where there is one. MPICH has another ABI and
// is refused: it exports none of the objects.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_MPI_MPIABI_H
#define KERF_RT_COMM_MPI_MPIABI_H

#include <cstddef>

namespace kerf::rt::mpi {

using Comm = void *;       // MPI_Comm
using Datatype = void *;   // MPI_Datatype
using MpiRequest = void *; // MPI_Request
using Errhandler = void *; // MPI_Errhandler

struct Status { // MPI_Status
  int source, tag, error;
  int cancelled;
  size_t bytes;
};

constexpr int success = 0;          // MPI_SUCCESS
constexpr int anySource = -1;       // MPI_ANY_SOURCE
constexpr int threadSerialized = 2; // MPI_THREAD_SERIALIZED
constexpr int maxErrorString = 256; // MPI_MAX_ERROR_STRING
constexpr int tagUpperBound = 0;    // MPI_TAG_UB

/// The functions and objects that are looked up by name.
struct Table {
  int (*Init_thread)(int *argc, char ***argv, int required, int *provided);
  int (*Initialized)(int *flag);
  int (*Finalize)();
  int (*Comm_rank)(Comm, int *rank);
  int (*Comm_size)(Comm, int *size);
  int (*Comm_idup)(Comm, Comm *copy, MpiRequest *);
  int (*Comm_set_errhandler)(Comm, Errhandler);
  int (*Comm_get_attr)(Comm, int keyval, void *value, int *found);
  int (*Isend)(const void *data, int count, Datatype, int to, int tag, Comm,
               MpiRequest *);
  int (*Irecv)(void *data, int count, Datatype, int from, int tag, Comm,
               MpiRequest *);
  int (*Test)(MpiRequest *, int *flag, Status *);
  int (*Cancel)(MpiRequest *);
  int (*Request_free)(MpiRequest *);
  int (*Get_count)(const Status *, Datatype, int *count);
  int (*Error_string)(int code, char *text, int *length);

  Comm commWorld;          // MPI_COMM_WORLD: &ompi_mpi_comm_world
  Datatype byte;           // MPI_BYTE: &ompi_mpi_byte
  Errhandler errorsReturn; // MPI_ERRORS_RETURN: &ompi_mpi_errors_return
  MpiRequest requestNull;  // MPI_REQUEST_NULL: &ompi_request_null
};

/// Opens libmpi.so.40, or what the environment variable KERF_MPI names. Throws
/// KERF_UNSUPPORTED_HOST saying what is missing and what to install.
Table openLibrary();

} // namespace kerf::rt::mpi

#endif // KERF_RT_COMM_MPI_MPIABI_H
