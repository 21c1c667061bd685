//===- FindTest.cpp - where libraries are looked for ----------------------===//
#include "RecordingDriver.h"
#include "TestWorld.h"

#include "comm/nccl/NcclWorld.h"
#include "comm/nccl/Packing.h"
#include "device/cuda/driver/Driver.h"
#include "device/cuda/driver/Find.h"
#include "device/cuda/driver/Module.h"
#include "execution/Philox.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace kerf::rt;
namespace fs = std::filesystem;

namespace {
struct Variable {
  std::string name, old;
  bool had;
  Variable(const char *name, const std::string &value) : name(name) {
    const char *before = std::getenv(name);
    had = before;
    old = before ? before : "";
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    had ? ::setenv(name.c_str(), old.c_str(), 1) : ::unsetenv(name.c_str());
  }
};

TEST(Find, OrderOfPlaces) {
  fs::path root =
      fs::temp_directory_path() / ("kerf-find-" + std::to_string(::getpid()));
  fs::path site = root / "given",
           venv = root / "venv/lib/python3.12/site-packages",
           older = root / "venv/lib/python3.9/site-packages";
  for (const fs::path &p : {site, venv, older})
    fs::create_directories(p / "nvidia/nccl/lib");
  Variable given("KERF_PYTHON_SITE", site),
      active("VIRTUAL_ENV", root / "venv"), cuda("CUDA_HOME", root / "cuda"),
      path("PATH", "");
  LibrarySearch search{"NCCL", "KERF_FIND_TEST", {"libnccl.so.2"}, {"nccl"}};
  std::vector<std::string> all = candidates(search);
  auto at = [&](const std::string &text) {
    auto it = std::find(all.begin(), all.end(), text);
    EXPECT_NE(it, all.end()) << text;
    return it - all.begin();
  };
  auto system = at("libnccl.so.2"),
       toolkit = at(root / "cuda/lib64/libnccl.so.2"),
       first = at(site / "nvidia/nccl/lib/libnccl.so.2"),
       second = at(venv / "nvidia/nccl/lib/libnccl.so.2"),
       third = at(older / "nvidia/nccl/lib/libnccl.so.2");
  EXPECT_EQ(system, 0);
  EXPECT_LT(system, toolkit);
  EXPECT_LT(toolkit, first);
  EXPECT_LT(first, second);
  EXPECT_LT(second, third) << "3.12 is newer than 3.9";
  Variable own("KERF_FIND_TEST", "/some/libnccl.so");
  EXPECT_EQ(candidates(search), std::vector<std::string>{"/some/libnccl.so"});
  OpenedLibrary opened = openLibrary(search);
  EXPECT_EQ(opened.handle, nullptr);
  EXPECT_NE(opened.error.find("(KERF_FIND_TEST is set)"), std::string::npos)
      << opened.error;
  fs::remove_all(root);
}

// A driver runs libraries of its own CUDA and of older ones: what is newer is
// looked for when nothing else is anywhere.
TEST(Find, LibrariesThatTheDriverRuns) {
  Variable cuda("CUDA_HOME", "/toolkit");
  LibrarySearch search{"cuBLASLt", "KERF_FIND_TEST", {}, {"cublas"}};
  auto majors = [&](int driverVersion) {
    nameForDriver(search, "libcublasLt.so", driverVersion);
    std::string list;
    for (const std::string &candidate : candidates(search))
      list += candidate.substr(candidate.size() - 1);
    return list;
  };
  std::string old = majors(12080);
  EXPECT_EQ(old.find_last_of('2') + 1, old.find('3')) << old;
  EXPECT_EQ(majors(13000).substr(0, 4), "3232");
  EXPECT_EQ(majors(13000).size(), old.size());
}

// Modules are loaded at once where several ranks run, but as the user says.
TEST(Find, LoadingOfModules) {
  auto loading = [](int64_t ranks) {
    WorldSpec spec;
    spec.mesh = test::meshOf({ranks});
    makeNcclWorld(spec, {});
    const char *value = std::getenv("CUDA_MODULE_LOADING");
    return std::string(value ? value : "");
  };
  Variable kept("CUDA_MODULE_LOADING", "");
  ::unsetenv("CUDA_MODULE_LOADING");
  EXPECT_EQ(loading(1), "");
  EXPECT_EQ(loading(2), "EAGER");
  ::setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  EXPECT_EQ(loading(2), "LAZY");
}

TEST(Find, Lists) {
  EXPECT_EQ(parseGpuList("0-3"), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(parseGpuList("cuda:2,0"), (std::vector<int>{2, 0}));
  for (const char *bad : {"", "a", "3-1", "1,", "-1", "1--2"})
    EXPECT_THROW(parseGpuList(bad), Error) << bad;
}

TEST(Find, ChoosesGpus) {
  Driver driver;
  driver.gpus = {{"NVIDIA H200", 9, 0, 132}, {"NVIDIA H200", 9, 0, 132}};
  EXPECT_EQ(chooseGpu(driver, 5, 1, 2).ordinal, 1);
  EXPECT_FALSE(chooseGpu(driver, 5, 1, 2).shared);
  try {
    chooseGpu(driver, 5, 2, 4);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.code, KERF_UNSUPPORTED_HOST);
    EXPECT_EQ(error.message,
              "rank 5 needs GPU 2, this machine has 2 (0: NVIDIA H200 (sm_90), "
              "1: NVIDIA H200 (sm_90)); KERF_CUDA_DEVICES names others");
  }
  {
    Variable list("KERF_CUDA_DEVICES", "1");
    EXPECT_EQ(chooseGpu(driver, 0, 0, 1).ordinal, 1);
    EXPECT_THROW(chooseGpu(driver, 1, 1, 2), Error);
    Variable share("KERF_SHARE_GPU", "1");
    EXPECT_EQ(chooseGpu(driver, 1, 1, 2).ordinal, 1);
    EXPECT_TRUE(chooseGpu(driver, 1, 1, 2).shared);
  }
  Variable share("KERF_SHARE_GPU", "1");
  EXPECT_EQ(chooseGpu(driver, 3, 3, 4).ordinal, 1);
  EXPECT_TRUE(chooseGpu(driver, 3, 3, 4).shared);
}

// The known answers of the paper's authors (Random123, kat_vectors).
TEST(Philox, KnownAnswers) {
  uint32_t words[4];
  philox(0, 0, words);
  EXPECT_EQ(words[0], 0x6627e8d5u);
  EXPECT_EQ(words[1], 0xe169c58du);
  EXPECT_EQ(words[2], 0xbc57ac4cu);
  EXPECT_EQ(words[3], 0x9b00dbd8u);
  SeededTensor values({7, true, 1, 2}, "w"), again({7, true, 1, 2}, "w");
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < 100000; ++i) {
    double x = values.at(i);
    sum += x;
    squares += (x - 1) * (x - 1);
  }
  EXPECT_NEAR(sum / 100000, 1, 0.03);
  EXPECT_NEAR(squares / 100000, 4, 0.1);
  for (int64_t i : {99999, 5, 4, 7})
    EXPECT_EQ(again.at(i), values.at(i)) << "any part alone";
  EXPECT_NE(SeededTensor({8, true, 1, 2}, "w").at(5), values.at(5));
  EXPECT_NE(SeededTensor({7, true, 1, 2}, "v").at(5), values.at(5));
}

TEST(Find, ChoosesCubins) {
  CudaTarget target;
  target.cubins = {{80, "a"}, {90, "b"}, {100, "c"}};
  auto gpu = [](int major, int minor) { return GpuInfo{"x", major, minor, 1}; };
  EXPECT_EQ(chooseCubin(target, gpu(8, 0)), 0);
  EXPECT_EQ(chooseCubin(target, gpu(8, 9)), 0) << "minor versions are above";
  EXPECT_EQ(chooseCubin(target, gpu(9, 0)), 1);
  EXPECT_EQ(chooseCubin(target, gpu(10, 3)), 2);
  EXPECT_EQ(chooseCubin(target, gpu(7, 5)), -1);
  EXPECT_EQ(chooseCubin(target, gpu(12, 0)), -1);
}
} // namespace
