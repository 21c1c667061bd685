//===- StopTest.cpp - Requests to stop and what is sent again for them ----===//
#include "kerf/rt/stop.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <thread>
#include <unistd.h>

using namespace kerf::rt;

static volatile std::sig_atomic_t told = 0, before = 0;

namespace {
/// SIGINT had an effect before: it is counted.
class Stop : public ::testing::Test {
protected:
  void SetUp() override {
    told = before = 0;
    old = std::signal(SIGINT, [](int) { before = before + 1; });
    scope.emplace([](int) { told = told + 1; }, StopScope::Takes());
  }
  void TearDown() override {
    scope.reset();
    std::signal(SIGINT, old);
  }
  static void wait(int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  }

  void (*old)(int) = nullptr;
  std::optional<StopScope> scope;
};
} // namespace

TEST_F(Stop, OneRequestIsToldOnce) {
  ::raise(SIGINT);
  ::raise(SIGINT);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(before, 0);
}

TEST_F(Stop, ASecondRequestHasTheEffectOfBefore) {
  ::raise(SIGINT);
  wait(300);
  ::raise(SIGINT);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(before, 1);
}

/// What it ends may be over before `timeout` has sent the second signal.
TEST_F(Stop, ARequestIsSettledBeforeTheScopeEnds) {
  ::raise(SIGINT);
  std::thread again([] {
    wait(20);
    ::kill(::getpid(), SIGINT);
  });
  scope.reset();
  EXPECT_EQ(before, 0);
  again.join();
  EXPECT_EQ(told, 1);
}

TEST_F(Stop, NothingIsWaitedForWithoutARequest) {
  auto begin = std::chrono::steady_clock::now();
  scope.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            std::chrono::milliseconds(150));
  ::raise(SIGINT);
  EXPECT_EQ(before, 1);
}
