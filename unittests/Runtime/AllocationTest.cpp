//===- AllocationTest.cpp - a step allocates nothing ----------------------===//
//
// This binary's operator new counts the allocations of one thread while it is
// asked to. The rank of a package of kernels and collectives runs on it.
//
//===----------------------------------------------------------------------===//
#include "TestPackage.h"
#include "TestWorld.h"
#include "execution/Rank.h"

#include <cstdlib>
#include <new>
#include <thread>

static thread_local bool counting = false;
static thread_local int64_t allocations = 0;

#if !defined(__SANITIZE_ADDRESS__) && !__has_feature(address_sanitizer) &&     \
    !__has_feature(thread_sanitizer)
#define KERF_COUNTS_ALLOCATIONS 1
void *operator new(size_t size) {
  allocations += counting;
  if (void *memory = std::malloc(size ? size : 1))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
#endif

using namespace kerf::rt;
using namespace kerf::rt::test;
using nlohmann::json;

namespace {

constexpr const char *source = R"(
static void kernel(void *const *b, const int64_t *s, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    ((float *)b[1])[i] = 2 * ((const float *)b[0])[i];
}
FUNCTION(step) {
  void *b[] = {ios[0], scratch};
  TRY(api->launch(ctx, -1, kernel, b, 2, 0, 4, 1));
  TRY(api->collective(ctx, 0, scratch, ios[1]));
  TRY(api->collective_start(ctx, 1, scratch, (char *)scratch + 64));
  return api->collective_wait(ctx, 1);
}
)";

TEST(Allocation, AStepAllocatesNothing) {
#ifndef KERF_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "the sanitizer has its own allocator";
#endif
  TestPackage p(source);
  p.manifest["mesh"] = {{"axes", {{{"name", "tp"}, {"size", 2}}}}};
  p.manifest["inputs"] = {tensor("x", {8}, {axes({"tp"})})};
  p.manifest["outputs"] = {tensor("y", {4}, {axes({})})};
  json reduce = {{"kind", "all_reduce"}, {"reduction", "sum"},
                 {"dtype", "f32"},       {"axes", axes({"tp"})},
                 {"src_shape", {4}},     {"dst_shape", {4}},
                 {"group_bytes", 32}};
  json exchange = {{"kind", "all_to_all"}, {"dtype", "f32"},
                   {"axes", axes({"tp"})}, {"src_shape", {1, 4}},
                   {"dst_shape", {2, 2}},  {"group_bytes", 16},
                   {"split_dim", 1},       {"concat_dim", 0}};
  p.manifest["collectives"] = {reduce, exchange};
  json io = {{"dtype", "f32"}, {"shape", {4}}};
  p.manifest["functions"] = {{{"symbol", "step"},
                              {"scratch_bytes", 128},
                              {"num_arguments", 1},
                              {"ios", {io, io}}}};
  p.manifest["stages"] = oneRun(256, 128, 128);
  std::shared_ptr<const Package> package = Package::open(p.write(), false);
  WorldSpec spec;
  spec.mesh = package->manifest.mesh;
  spec.collectives = package->manifest.collectives;
  auto world = makeThreadWorld(spec);
  ParameterStore store(package);
  auto packs = makeCpuPackCache();
  std::vector<float> x(8, 1), y(4);
  StepIo io2;
  io2.inputs = {reinterpret_cast<char *>(x.data())};
  io2.outputs = {reinterpret_cast<char *>(y.data())};
  int64_t counted[2] = {-1, -1};
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      Rank r(package, rank, 1, *world, store, packs, io2, /*trace=*/true);
      r.step(io2);
      counting = true;
      for (int i = 0; i < 10; ++i)
        r.step(io2);
      counting = false;
      counted[rank] = allocations;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(counted[0], 0);
  EXPECT_EQ(counted[1], 0);
  EXPECT_EQ(y, std::vector<float>(4, 4));
}
} // namespace
