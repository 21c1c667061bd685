//===- mpi/MpiTransport.h - messages over Open MPI --------------*- C++ -*-===//
//
// Uses point-to-point messages only: MPI's own collectives would sum in another
// order, and wait for ever for a rank that is gone. Groups of ranks are
// numbered streams of tags in one copy of MPI_COMM_WORLD, since creating
// communicators blocks without a deadline. Starting and ending MPI block, too:
// they run on a thread of their own, for which callers wait with a deadline.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_MPI_MPITRANSPORT_H
#define KERF_RT_COMM_MPI_MPITRANSPORT_H

#include "../Rendezvous.h"
#include "../Transport.h"

#include <deque>
#include <list>

namespace kerf::rt {

/// Starts MPI. Throws KERF_UNSUPPORTED_HOST without the library,
/// KERF_RANK_FAILURE when not all ranks came in time.
std::unique_ptr<Transport> makeMpiTransport(const JobEnvironment &environment,
                                            double seconds);

} // namespace kerf::rt

#endif // KERF_RT_COMM_MPI_MPITRANSPORT_H
