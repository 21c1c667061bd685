//===- MpiAbiTest.cpp - our declarations against the real mpi.h -----------===//
//
// Compiled only where mpi.h is installed. What differs does not compile; what
// the header says of values and layouts is compared below.
//
//===----------------------------------------------------------------------===//
#include "comm/mpi/MpiAbi.h"

#include <gtest/gtest.h>

#include <cstdlib>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <type_traits>

namespace ours = kerf::rt::mpi;

namespace {
/// A handle of MPI, seen as we see it: a pointer to something.
template <typename T> struct Seen {
  using Type = T;
};
template <> struct Seen<MPI_Comm> {
  using Type = void *;
};
template <> struct Seen<MPI_Datatype> {
  using Type = void *;
};
template <> struct Seen<MPI_Errhandler> {
  using Type = void *;
};
template <> struct Seen<MPI_Request> {
  using Type = void *;
};
template <> struct Seen<MPI_Comm *> {
  using Type = void **;
};
template <> struct Seen<MPI_Request *> {
  using Type = void **;
};
template <> struct Seen<MPI_Status *> {
  using Type = ours::Status *;
};
template <> struct Seen<const MPI_Status *> {
  using Type = const ours::Status *;
};
template <typename F> struct SeenFunction;
template <typename R, typename... As> struct SeenFunction<R(As...)> {
  using Type = R (*)(typename Seen<As>::Type...);
};

#define SAME(NAME)                                                             \
  static_assert(std::is_same_v<SeenFunction<decltype(MPI_##NAME)>::Type,       \
                               decltype(ours::Table::NAME)>,                   \
                "MPI_" #NAME " has another signature")
SAME(Init_thread);
SAME(Initialized);
SAME(Finalize);
SAME(Comm_rank);
SAME(Comm_size);
SAME(Comm_idup);
SAME(Comm_set_errhandler);
SAME(Comm_get_attr);
SAME(Isend);
SAME(Irecv);
SAME(Test);
SAME(Cancel);
SAME(Request_free);
SAME(Get_count);
SAME(Error_string);

static_assert(ours::success == MPI_SUCCESS);
static_assert(ours::anySource == MPI_ANY_SOURCE);
static_assert(ours::threadSerialized == MPI_THREAD_SERIALIZED);
static_assert(ours::maxErrorString == MPI_MAX_ERROR_STRING);
static_assert(ours::tagUpperBound == MPI_TAG_UB);
static_assert(sizeof(ours::Status) == sizeof(MPI_Status));
static_assert(offsetof(ours::Status, source) ==
              offsetof(MPI_Status, MPI_SOURCE));
static_assert(offsetof(ours::Status, tag) == offsetof(MPI_Status, MPI_TAG));
static_assert(offsetof(ours::Status, error) == offsetof(MPI_Status, MPI_ERROR));
static_assert(offsetof(ours::Status, bytes) == offsetof(MPI_Status, _ucount));

// The names of the predefined objects are those of the header's macros: the
// library is not linked, so that they are compared as text.
#define TEXT(...) #__VA_ARGS__
#define EXPANDED(...) TEXT(__VA_ARGS__)
TEST(MpiAbi, PredefinedObjects) {
  auto names = [](const char *macro, const char *symbol) {
    return std::string(macro).find(symbol) != std::string::npos;
  };
  EXPECT_TRUE(names(EXPANDED(MPI_COMM_WORLD), "ompi_mpi_comm_world"));
  EXPECT_TRUE(names(EXPANDED(MPI_BYTE), "ompi_mpi_byte"));
  EXPECT_TRUE(names(EXPANDED(MPI_ERRORS_RETURN), "ompi_mpi_errors_return"));
  EXPECT_TRUE(names(EXPANDED(MPI_REQUEST_NULL), "ompi_request_null"));
}

// Every symbol is there.
TEST(MpiAbi, LibraryHasAllSymbols) { EXPECT_NO_THROW(ours::openLibrary()); }
} // namespace
