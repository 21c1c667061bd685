//===- ProcessTestMain.cpp - tests that every process of a job runs -------===//
//
// The tests run in the same order everywhere; a process plays its own rank.
//
//===----------------------------------------------------------------------===//
#include "TestWorld.h"

#include <cstdio>
#include <cstdlib>

using namespace kerf::rt;

int main(int argc, char **argv) {
  int code = 1;
  try {
    JobEnvironment env = jobEnvironment();
    if (env.size > 1)
      test::testJob() = joinJob(env, 30);
    testing::InitGoogleTest(&argc, argv);
    if (env.rank != 0) // one report is enough; failures are printed by all
      testing::FLAGS_gtest_brief = true;
    code = RUN_ALL_TESTS();
    if (test::testJob())
      test::testJob()->leave();
  } catch (const Error &error) {
    std::fprintf(stderr, "error: %s\n", error.message.c_str());
  }
  std::fflush(nullptr);
  std::_Exit(code);
}
