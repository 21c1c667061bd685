//===- HostCores.h - cores that this process may use ------------*- C++ -*-===//
//
// A host has more cores than a process may use, where an affinity mask names
// some of them (taskset, cpusets of containers and batch systems), and where a
// cgroup limits its time (docker --cpus, limits of Kubernetes): threads beyond
// that wait for each other. Compiler and runtime count here, and nowhere else.
// Includes only the C++ library and the kernel's interface, since the runtime
// includes this file.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FORMAT_HOSTCORES_H
#define KERF_FORMAT_HOSTCORES_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sched.h>
#include <string>
#include <thread>
#include <unistd.h>

namespace kerf {

struct HostCores {
  int64_t allowed;  ///< that the affinity mask names
  int64_t usable;   ///< no more than the time that the cgroup gives, rounded up
  int64_t launcher; ///< that this process's parent may use

  /// The share of each process where a launcher has started so many on this
  /// host. One that binds its processes to cores has given each its own part.
  int64_t share(int64_t processes) const {
    return std::max<int64_t>(std::min(usable, launcher / processes), 1);
  }
};

namespace detail {

/// Of a process, 0: of the calling thread.
inline int64_t inAffinityMask(pid_t process) {
  // The kernel refuses a set that is smaller than its own.
  for (int size = CPU_SETSIZE; size <= CPU_SETSIZE * 64; size *= 4) {
    cpu_set_t *set = CPU_ALLOC(size);
    if (!set)
      break;
    size_t bytes = CPU_ALLOC_SIZE(size);
    int64_t count = ::sched_getaffinity(process, bytes, set) == 0
                        ? CPU_COUNT_S(bytes, set)
                        : 0;
    CPU_FREE(set);
    if (count > 0)
      return count;
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

/// Microseconds per period, of files that hold one number each (cgroup v1) or
/// both (v2, "max" for none), as cores; infinite where there is no limit.
inline double cpuQuotaIn(const std::string &group) {
  double quota = -1, period = 0;
  if (std::ifstream both(group + "/cpu.max"); !(both >> quota >> period)) {
    quota = -1;
    std::ifstream(group + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(group + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period
                                 : std::numeric_limits<double>::infinity();
}

/// The least quota of this process's cgroups, in cores. Each group has its
/// parents' limits as well. A container may see its own group as the root of
/// the mount, and so none of the folders below it that the kernel names.
inline double cpuQuota(const std::string &root) {
  double least = std::numeric_limits<double>::infinity();
  std::ifstream groups(root + "/proc/self/cgroup");
  const std::string mounts = root + "/sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) {
    // "0::/path" in version 2, "3:cpu,cpuacct:/path" in version 1.
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    std::string controllers = line.substr(first + 1, second - first - 1),
                path = line.substr(second + 1);
    if (!controllers.empty() &&
        ("," + controllers + ",").find(",cpu,") == std::string::npos)
      continue;
    const std::string places[] = {
        controllers.empty() ? mounts : mounts + "/" + controllers,
        mounts + (controllers.empty() ? "/unified" : "/cpu")};
    for (;;) {
      for (const std::string &mount : places)
        least = std::min(least, cpuQuotaIn(mount + path));
      if (path.empty())
        break;
      path.resize(std::min(path.rfind('/'), path.size() - 1));
    }
  }
  return least;
}

/// `root` in front of the kernel's files, for tests.
inline HostCores countCores(const std::string &root) {
  double given = std::ceil(cpuQuota(root));
  auto usable = [&](int64_t cores) {
    return static_cast<int64_t>(std::min(given, static_cast<double>(cores)));
  };
  int64_t allowed = inAffinityMask(0),
          launcher = std::max(inAffinityMask(::getppid()), allowed);
  return {allowed, usable(allowed), usable(launcher)};
}

} // namespace detail

/// Counted once, by who asks first: later the calling thread may be bound to a
/// core of its own (libgomp does that on OMP_PROC_BIND).
inline const HostCores &hostCores() {
  static const HostCores cores = detail::countCores("");
  return cores;
}

} // namespace kerf

#endif // KERF_FORMAT_HOSTCORES_H
