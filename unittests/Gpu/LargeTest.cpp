//===- LargeTest.cpp - more than 2^31 elements, beyond 4 GiB --------------===//
//
// Kernels on tensors that no machine of a test could hold: memory is reserved
// and only what some blocks touch comes to be. Blocks at the beginning, around
// element 2^31 and at the end compute what they should, where they should.
//
//===----------------------------------------------------------------------===//
#include "Emulator.h"
#include "Harness.h"

#include "gtest/gtest.h"

#include "mlir/Parser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <cmath>
#include <sys/mman.h>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

/// Zeros, of which only what is touched takes memory.
struct Sparse {
  size_t bytes;
  void *data;
  explicit Sparse(int64_t size)
      : bytes(static_cast<size_t>(size)),
        data(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Sparse() {
    if (data != MAP_FAILED)
      munmap(data, bytes);
  }
  Sparse(const Sparse &) = delete;
  explicit operator bool() const { return data != MAP_FAILED; }
  template <typename T> T *as() const { return static_cast<T *>(data); }
};

struct Compiled : Parsed {
  Emulator emulator;
  Compiled(const std::string &text, bool batch = false) : Parsed(text) {
    EXPECT_TRUE(batch ? emulator.addBatch(kernel(), "k")
                      : emulator.add(kernel(), "k"));
    EXPECT_EQ(emulator.compile(), "");
  }
  void run(const std::vector<void *> &buffers,
           const std::vector<uint32_t> &blocks) {
    FailureRecord record = {};
    EXPECT_EQ(emulator.launch("k", buffers, record, 1, blocks), "");
    EXPECT_EQ(record.state, 0u);
  }
};

#define SPARSE(name, bytes)                                                    \
  Sparse name(bytes);                                                          \
  if (!name)                                                                   \
  GTEST_SKIP() << "this machine does not reserve " << bytes << " bytes"

TEST(GpuLarge, Elements) {
  constexpr int64_t count = 2200000000; // 8.8 GB
  Compiled k(
      R"(exec.kernel @k(%x: tensor<2200000000xf32>) -> tensor<2200000000xf32> attributes {index = 0 : i64, node = "/n"} {
    %0 = nn.mul %x, %x : tensor<2200000000xf32>
    exec.yield %0 : tensor<2200000000xf32>
  })");
  SPARSE(x, count * 4);
  SPARSE(y, count * 4);
  auto grid = k.emulator.entry("k").grid[0];
  int64_t each = (count + grid - 1) / grid;
  std::vector<uint32_t> blocks;
  for (int64_t element : {int64_t(0), int64_t(1) << 30, int64_t(1) << 31,
                          (int64_t(1) << 31) + 12345, count - 1}) {
    x.as<float>()[element] = static_cast<float>(element % 1000 + 1);
    auto block = static_cast<uint32_t>(std::min(element / each, grid - 1));
    for (uint32_t at : {block ? block - 1 : 0, block,
                        std::min(block + 1, static_cast<uint32_t>(grid - 1))})
      if (std::find(blocks.begin(), blocks.end(), at) == blocks.end())
        blocks.push_back(at);
  }
  k.run({x.data, y.data}, blocks);
  for (int64_t element : {int64_t(0), int64_t(1) << 30, int64_t(1) << 31,
                          (int64_t(1) << 31) + 12345, count - 1}) {
    float want = static_cast<float>(element % 1000 + 1);
    EXPECT_EQ(y.as<float>()[element], want * want) << element;
  }
}

TEST(GpuLarge, RowsOfATable) {
  constexpr int64_t rows = 70000, columns = 40000; // 11.2 GB
  Compiled k(
      R"(exec.kernel @k(%t: tensor<70000x40000xf32>, %i: tensor<3xi64>) -> tensor<3x40000xf32> attributes {index = 0 : i64, node = "/n"} {
    %0 = nn.gather %t, %i dim 0 : (tensor<70000x40000xf32>, tensor<3xi64>) -> tensor<3x40000xf32>
    exec.yield %0 : tensor<3x40000xf32>
  })");
  SPARSE(t, rows * columns * 4);
  std::vector<int64_t> indices = {69999, 1, 53688}; // around element 2^31
  for (int64_t row : indices)
    for (int64_t c = 0; c < columns; ++c)
      t.as<float>()[row * columns + c] = static_cast<float>(row * 3 + c);
  std::vector<float> y(3 * columns);
  k.run({t.data, indices.data(), y.data()}, {});
  for (int64_t r = 0; r < 3; ++r)
    for (int64_t c = 0; c < columns; ++c)
      ASSERT_EQ(y[r * columns + c], static_cast<float>(indices[r] * 3 + c));
}

TEST(GpuLarge, SumsOfRows) {
  constexpr int64_t rows = 700000, columns = 4000; // 11.2 GB
  Compiled k(
      R"(exec.kernel @k(%x: tensor<700000x4000xf32>) -> tensor<700000xf32> attributes {index = 0 : i64, node = "/n"} {
    %0 = nn.reduce sum %x dims [1] : (tensor<700000x4000xf32>) -> tensor<700000xf32>
    exec.yield %0 : tensor<700000xf32>
  })");
  SPARSE(x, rows * columns * 4);
  std::vector<float> y(rows, -1);
  for (int64_t c = 0; c < columns; ++c)
    x.as<float>()[(rows - 1) * columns + c] = static_cast<float>(c % 7);
  double want = 0;
  for (int64_t c = 0; c < columns; ++c)
    want += static_cast<double>(c % 7);
  auto grid = static_cast<uint32_t>(k.emulator.entry("k").grid[0]);
  k.run({x.data, y.data()}, {0, grid - 1});
  EXPECT_EQ(y[rows - 1], static_cast<float>(want));
  EXPECT_EQ(y[0], 0);
}

TEST(GpuLarge, Transposes) {
  constexpr int64_t n = 47000; // 8.8 GB
  Compiled k(
      R"(exec.kernel @k(%x: tensor<47000x47000xf32>) -> tensor<47000x47000xf32> attributes {index = 0 : i64, node = "/n"} {
    %0 = nn.transpose %x perm [1, 0] : (tensor<47000x47000xf32>) -> tensor<47000x47000xf32>
    exec.yield %0 : tensor<47000x47000xf32>
  })");
  SPARSE(x, n * n * 4);
  SPARSE(y, n * n * 4);
  x.as<float>()[(n - 1) * n + n - 2] = 5;
  auto grid = static_cast<uint32_t>(k.emulator.entry("k").grid[0]);
  k.run({x.data, y.data}, {grid - 1});
  EXPECT_EQ(y.as<float>()[(n - 2) * n + n - 1], 5);
}

/// A parameter of more than 2^31 elements between two small ones.
TEST(GpuLarge, Updates) {
  constexpr int64_t count = 2800000000, chunk = 16384;
  Compiled k(
      R"(exec.kernel @k(%w: tensor<70000x40000xbf16>, %g: tensor<70000x40000xbf16>) -> tensor<70000x40000xbf16> attributes {index = 0 : i64, node = "/n", phase = #exec<phase update>} {
    %0 = nn.sub %w, %g : tensor<70000x40000xbf16>
    exec.yield %0 : tensor<70000x40000xbf16>
  })",
      true);
  SPARSE(w, count * 2);
  SPARSE(g, count * 2);
  std::vector<uint16_t> small(16, 0x3f80), other(16, 0x3f80); // 1.0
  constexpr uint16_t two = 0x4000, minusTwo = 0xc000;
  std::vector<int64_t> places = {0, int64_t(1) << 31, count - 1};
  for (int64_t place : places)
    g.as<uint16_t>()[place] = two;
  int64_t blocks = (count + chunk - 1) / chunk;
  auto word = [](const void *p) { return reinterpret_cast<uint64_t>(p); };
  std::vector<uint64_t> table = {0, 1, uint64_t(1 + blocks),
                                 uint64_t(2 + blocks)};
  for (uint16_t *p : {small.data(), w.as<uint16_t>(), other.data()}) {
    bool large = p == w.as<uint16_t>();
    table.insert(table.end(), {word(p), large ? word(g.data) : word(p), word(p),
                               large ? uint64_t(count) : 16});
  }
  std::vector<uint32_t> grid = {0, uint32_t(blocks + 1)};
  for (int64_t place : places)
    grid.push_back(static_cast<uint32_t>(1 + place / chunk));
  k.run({table.data(), reinterpret_cast<void *>(uint64_t(3))}, grid);
  for (int64_t place : places)
    EXPECT_EQ(w.as<uint16_t>()[place], minusTwo) << place;
  EXPECT_EQ(small, std::vector<uint16_t>(16, 0));
  EXPECT_EQ(other, std::vector<uint16_t>(16, 0));
}

} // namespace
