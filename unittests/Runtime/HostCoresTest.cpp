//===- HostCoresTest.cpp - cores that a process may use -------------------===//
#include "kerf/Format/HostCores.h"
#include "TestPackage.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

using namespace kerf;
using namespace kerf::rt::test;

namespace {

/// The kernel's files of a host, written by a test.
class Host {
public:
  void write(const std::string &name, const std::string &text) {
    std::filesystem::create_directories(
        std::filesystem::path(dir.path(name)).parent_path());
    dir.write(name, text);
  }
  double quota() const { return kerf::detail::cpuQuota(dir.path("")); }
  HostCores count() const { return kerf::detail::countCores(dir.path("")); }

private:
  TempDir dir;
};

TEST(HostCores, WithoutFilesThereIsNoQuota) {
  HostCores cores = Host().count();
  EXPECT_GE(cores.allowed, 1);
  EXPECT_EQ(cores.usable, cores.allowed);
  EXPECT_GE(cores.launcher, cores.usable);
}

TEST(HostCores, AnAffinityMaskNamesThem) {
  std::thread([] { // what is bound stays so
    cpu_set_t set, one;
    ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &set))
      --last;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(Host().count().allowed, 1);
    EXPECT_EQ(Host().count().usable, 1);
  })
      .join();
}

// The least of all limits of the groups that a process is in.
TEST(HostCores, QuotaOfVersion2) {
  Host host;
  host.write("proc/self/cgroup", "0::/slice/pod\n");
  host.write("sys/fs/cgroup/slice/pod/cpu.max", "max 100000\n");
  EXPECT_EQ(host.count().usable, host.count().allowed);
  host.write("sys/fs/cgroup/slice/cpu.max", "150000 100000\n");
  EXPECT_EQ(host.quota(), 1.5);
  host.write("sys/fs/cgroup/slice/pod/cpu.max", "20000 100000\n");
  EXPECT_EQ(host.quota(), 0.2);
  EXPECT_EQ(host.count().usable, 1); // rounded up
  EXPECT_GE(host.count().allowed, 1);
  host.write("proc/self/cgroup", "0::/../other\n");
  host.write("sys/fs/cgroup/cpu.max", "700000 100000\n");
  EXPECT_EQ(host.quota(), 7);
}

// A container sees its own group at the root, and not the folders that the
// kernel names. Groups of other controllers say nothing.
TEST(HostCores, QuotaOfVersion1) {
  Host host;
  host.write("proc/self/cgroup", "4:cpuset:/one\n3:cpu,cpuacct:/docker/1f\n");
  host.write("sys/fs/cgroup/cpuset/one/cpu.cfs_quota_us", "1\n");
  host.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  host.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(host.count().usable, host.count().allowed);
  host.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "320000\n");
  EXPECT_EQ(host.quota(), 3.2);
  host.write("sys/fs/cgroup/cpu/docker/1f/cpu.cfs_quota_us", "25000\n");
  host.write("sys/fs/cgroup/cpu/docker/1f/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(host.quota(), 0.5);
}

// A launcher that binds its processes has divided already; one that does not
// leaves all of them the same cores.
TEST(HostCores, SharesOfProcesses) {
  EXPECT_EQ((HostCores{16, 16, 16}.share(4)), 4);
  EXPECT_EQ((HostCores{8, 8, 16}.share(2)), 8);
  EXPECT_EQ((HostCores{1, 1, 16}.share(2)), 1);
  EXPECT_EQ((HostCores{2, 2, 2}.share(3)), 1);
}

} // namespace
