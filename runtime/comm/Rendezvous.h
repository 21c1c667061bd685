//===- Rendezvous.h - how processes of a job find each other ----*- C++ -*-===//
//
// Rank, size and the address of rank 0 come from the variables of the launcher:
// mpirun, torchrun (also set by hand, one command per host, and by our own
// launcher), or srun. Rank 0 then serves a small key/value store over TCP,
// through which ranks exchange what they need to connect: addresses of sockets,
// the unique id of an NCCL communicator. docs/MultiNode.md has the variables.
//
// Invariant: no call waits past its deadline; the error names what is missing.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_RENDEZVOUS_H
#define KERF_RT_COMM_RENDEZVOUS_H

#include "../base/Error.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace kerf::rt {

/// The launcher's variables. Without a launcher: rank 0 of 1.
struct JobEnvironment {
  enum Launcher { None, OpenMpi, Torchrun, Slurm };
  Launcher launcher = None;
  int64_t rank = 0, size = 1;
  int64_t localRank = 0; ///< among the job's processes of this host
  int64_t localSize = 0; ///< 0: unknown
  /// Where rank 0 serves the store; empty under mpirun unless it is set.
  std::string masterAddress;
  int masterPort = 0;
  bool storeServed = false; ///< the launcher serves the store, not rank 0
};

/// Reads the variables, in this order: KERF_LAUNCHER (none, mpi, torchrun,
/// slurm) chooses; else OMPI_COMM_WORLD_*; else RANK and WORLD_SIZE; else
/// SLURM_PROCID and SLURM_NTASKS. Throws KERF_INVALID_ARGUMENT on values that
/// are no numbers, contradict each other or are incomplete.
using EnvironmentLookup = std::function<const char *(const char *)>;
JobEnvironment jobEnvironment(const EnvironmentLookup &lookup = {});

/// The first host of a Slurm list of nodes: "gpu[03-05,9],x" is "gpu03".
std::string firstHost(const std::string &nodeList);

/// A key/value store that all processes of a job see. Thread-safe. Keys have 1
/// to 1024 bytes, values at most 16 MiB; a value is any bytes.
class Store {
public:
  virtual ~Store() = default;
  virtual void set(const std::string &key, const std::string &value) = 0;
  virtual std::optional<std::string> get(const std::string &key) = 0;
  /// Waits for the key and returns its value. At the deadline throws
  /// KERF_RANK_FAILURE "WHAT was not there within S s"; an empty `what` means
  /// the key.
  virtual std::string wait(const std::string &key, double seconds,
                           const std::string &what = "");

  /// A barrier called `name`: every rank contributes some bytes and gets those
  /// of all ranks, by rank. Throws KERF_RANK_FAILURE naming the ranks that did
  /// not come. Each name may be used once.
  std::vector<std::string> gather(const std::string &name, int64_t rank,
                                  int64_t size, const std::string &value,
                                  double seconds);
};

/// Serves a store on a port of this host (0: any that is free) until it is
/// destroyed. `address` empty: on all interfaces. Throws KERF_IO_ERROR.
class Socket;
class StoreServer {
public:
  explicit StoreServer(Socket listener);
  StoreServer(const std::string &address, int port);
  ~StoreServer();
  StoreServer(const StoreServer &) = delete;
  StoreServer &operator=(const StoreServer &) = delete;
  int port() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// A client; tries to connect until the deadline, which also limits each later
/// call. Throws KERF_RANK_FAILURE if there is no store.
std::unique_ptr<Store> connectStore(const std::string &address, int port,
                                    double seconds);

/// The store of a job: rank 0 serves it at the master's address and port, and
/// all connect. The object must live until every rank has what it needs.
std::unique_ptr<Store> openJobStore(const JobEnvironment &environment,
                                    double seconds);

} // namespace kerf::rt

#endif // KERF_RT_COMM_RENDEZVOUS_H
