//===- CollectivesTest.cpp - the conformance suite of Comm ----------------===//
//
// Any implementation of World must pass: every collective, over every subset of
// the axes of meshes of 1 to 8 ranks, for every type, with shapes that do not
// divide, against a reference that works element by element from the
// definitions in docs/Package.md. runRanks also holds counted, planned and
// moved bytes together.
//
//===----------------------------------------------------------------------===//
#include "TestWorld.h"

#include <cstring>
#include <random>

using namespace kerf::rt;
using namespace kerf::rt::test;

namespace {

// Small integers are exact in every type, also as sums of eight.
int valueAt(int64_t rank, int64_t element) {
  return static_cast<int>((rank * 7 + element * 3) % 5);
}

uint16_t halfOf(int value) {
  _Float16 half = static_cast<_Float16>(value);
  uint16_t bits;
  std::memcpy(&bits, &half, 2);
  return bits;
}
uint16_t bfloatOf(int value) {
  float f = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return static_cast<uint16_t>(bits >> 16);
}

template <typename T> void put(void *data, int64_t i, T value) {
  std::memcpy(static_cast<char *>(data) + i * sizeof(T), &value, sizeof(T));
}

void store(kerf_dtype_t dtype, void *data, int64_t i, int value) {
  switch (dtype) {
  case KERF_F32:
    return put<float>(data, i, value);
  case KERF_F64:
    return put<double>(data, i, value);
  case KERF_F16:
    return put<uint16_t>(data, i, halfOf(value));
  case KERF_BF16:
    return put<uint16_t>(data, i, bfloatOf(value));
  default:
    switch (dtypeSize(dtype)) {
    case 1:
      return put<int8_t>(data, i, value);
    case 2:
      return put<int16_t>(data, i, value);
    case 4:
      return put<int32_t>(data, i, value);
    default:
      return put<int64_t>(data, i, value);
    }
  }
}

int combine(Reduction reduction, int a, int b) {
  switch (reduction) {
  case Reduction::Sum:
    return a + b;
  case Reduction::Max:
    return std::max(a, b);
  case Reduction::Min:
    return std::min(a, b);
  default:
    return a * b;
  }
}

int64_t flat(const Shape &shape, const Shape &index) {
  int64_t i = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    i = i * shape[d] + index[d];
  return i;
}

/// What element `index` of position `me`'s dst must be; members are rank
/// numbers.
int expected(const CollectiveDesc &c, const std::vector<int64_t> &members,
             int64_t me, Shape index) {
  int64_t n = static_cast<int64_t>(members.size());
  auto reduced = [&](const Shape &at) {
    int value = valueAt(members[0], flat(c.srcShape, at));
    for (int64_t j = 1; j < n; ++j)
      value = combine(c.reduction, value,
                      valueAt(members[j], flat(c.srcShape, at)));
    return value;
  };
  switch (c.kind) {
  case CollectiveKind::AllReduce:
    return reduced(index);
  case CollectiveKind::ReduceScatter:
    index[c.dim] += me * c.dstShape[c.dim];
    return index[c.dim] < c.srcShape[c.dim] ? reduced(index) : 0;
  case CollectiveKind::AllGather: {
    int64_t from = index[c.dim] / c.srcShape[c.dim];
    index[c.dim] %= c.srcShape[c.dim];
    return valueAt(members[from], flat(c.srcShape, index));
  }
  case CollectiveKind::AllToAll: {
    int64_t from = index[c.concatDim] / c.srcShape[c.concatDim];
    index[c.concatDim] %= c.srcShape[c.concatDim];
    index[c.dim] += me * c.dstShape[c.dim];
    return index[c.dim] < c.srcShape[c.dim]
               ? valueAt(members[from], flat(c.srcShape, index))
               : 0;
  }
  case CollectiveKind::Broadcast:
    return valueAt(members[c.root], flat(c.srcShape, index));
  case CollectiveKind::Permute:
    for (auto [from, to] : c.pairs)
      if (to == me)
        return valueAt(members[from], flat(c.srcShape, index));
    return 0;
  }
  return -1;
}

bool next(const Shape &shape, Shape &index) {
  for (size_t d = shape.size(); d-- > 0;) {
    if (++index[d] < shape[d])
      return true;
    index[d] = 0;
  }
  return false;
}

std::vector<char> sourceOf(const CollectiveDesc &c, int64_t rank) {
  std::vector<char> src(numBytes(c.srcShape, c.dtype));
  for (int64_t i = 0; i < numElements(c.srcShape); ++i)
    store(c.dtype, src.data(), i, valueAt(rank, i));
  return src;
}

void expectResult(const WorldSpec &spec, const CollectiveDesc &c, int64_t rank,
                  const std::vector<char> &dst) {
  std::vector<int64_t> members = spec.mesh.group(rank, c.axes);
  int64_t me = spec.mesh.position(rank, c.axes);
  std::vector<char> want(dst.size());
  Shape index(c.dstShape.size(), 0);
  if (numElements(c.dstShape) != 0)
    do
      store(c.dtype, want.data(), flat(c.dstShape, index),
            expected(c, members, me, index));
    while (next(c.dstShape, index));
  EXPECT_TRUE(dst == want) << describe(c, 0) << " to "
                           << shapeString(c.dstShape) << " on rank " << rank
                           << " of a group of " << members.size();
}

/// Runs all collectives of the spec one after the other and checks each.
void runAll(WorldSpec spec, const Implementation &implementation) {
  for (CollectiveDesc &c : spec.collectives)
    c.plannedGroupBytes = groupBytes(c, Mesh::sizeOf(c.axes));
  expectNoFailure(runRanks(
      spec,
      [&](int64_t rank, Comm &comm) {
        for (size_t i = 0; i < spec.collectives.size(); ++i) {
          const CollectiveDesc &c = spec.collectives[i];
          std::vector<char> src = sourceOf(c, rank);
          std::vector<char> dst(numBytes(c.dstShape, c.dtype), 0x55);
          comm.start(static_cast<int64_t>(i), src.data(), dst.data());
          comm.wait(static_cast<int64_t>(i));
          expectResult(spec, c, rank, dst);
        }
      },
      nullptr, implementation.make));
}

/// One of each kind over `axes`, with a dimension of `size` to be cut, into
/// parts that are `more` larger than they need to be.
void addEach(WorldSpec &spec, const AxisList &axes, kerf_dtype_t dtype,
             int64_t size, int64_t more = 0) {
  int64_t n = Mesh::sizeOf(axes),
          part = std::min(ceilDiv(size, n) + more, size);
  CollectiveDesc c;
  c.dtype = dtype;
  c.axes = axes;
  if (part != ceilDiv(size, n))
    c.part = part;
  if (dtype != KERF_BOOL) {
    for (Reduction r :
         {Reduction::Sum, Reduction::Max, Reduction::Min, Reduction::Prod}) {
      c.kind = CollectiveKind::AllReduce;
      c.reduction = r;
      c.srcShape = c.dstShape = {size, 3};
      if (r != Reduction::Prod || n <= 2) // 4^8 leaves the small types
        spec.collectives.push_back(c);
    }
    c.reduction = Reduction::Sum;
    c.kind = CollectiveKind::ReduceScatter;
    for (int64_t dim : {0, 1}) {
      c.dim = dim;
      c.srcShape = c.dstShape = {2, 2, 3};
      c.srcShape[dim] = size;
      c.dstShape[dim] = part;
      spec.collectives.push_back(c);
    }
  }
  c.kind = CollectiveKind::AllGather;
  for (int64_t dim : {0, 1, 2}) {
    c.dim = dim;
    c.srcShape = c.dstShape = {2, 2, 3};
    c.dstShape[dim] = size;
    c.srcShape[dim] = part;
    spec.collectives.push_back(c);
  }
  c.kind = CollectiveKind::AllToAll;
  for (auto [split, concat] :
       {std::pair<int64_t, int64_t>{0, 2}, {2, 0}, {1, 0}}) {
    c.dim = split;
    c.concatDim = concat;
    c.srcShape = c.dstShape = {2, 2, 2};
    c.srcShape[split] = size;
    c.dstShape[split] = part;
    c.dstShape[concat] = size + 1;
    c.srcShape[concat] = std::min(ceilDiv(size + 1, n) + more, size + 1);
    if (c.srcShape[concat] != ceilDiv(size + 1, n))
      c.concatPart = c.srcShape[concat];
    spec.collectives.push_back(c);
  }
  c.kind = CollectiveKind::Broadcast;
  c.srcShape = c.dstShape = {size};
  for (c.root = 0; c.root < n; c.root += n > 1 ? n - 1 : 1)
    spec.collectives.push_back(c);
  c.kind = CollectiveKind::Permute;
  c.pairs.clear();
  for (int64_t i = 0; i + 1 < n; ++i) // a shift; the first gets zeros
    c.pairs.push_back({i, i + 1});
  spec.collectives.push_back(c);
  c.pairs = {{n - 1, 0}, {0, n - 1}};
  if (n == 1)
    c.pairs = {{0, 0}};
  spec.collectives.push_back(c);
}

class Conformance : public testing::TestWithParam<
                        std::tuple<Implementation, std::vector<int64_t>>> {
protected:
  Mesh mesh() const { return meshOf(std::get<1>(GetParam())); }
  void run(const WorldSpec &spec) const {
    runAll(spec, std::get<0>(GetParam()));
  }
};

// Every subset of the axes of a mesh, major first and reversed, f32, with sizes
// that divide (8), do not (7), and are smaller than the group (1); and in parts
// that are larger than they need to be.
TEST_P(Conformance, EveryKindOverEverySubsetOfAxes) {
  Mesh mesh = this->mesh();
  SKIP_WITHOUT_RANKS(mesh);
  for (unsigned subset = 1; subset < (1u << mesh.axes.size()); ++subset) {
    std::vector<int> axes;
    for (size_t i = 0; i < mesh.axes.size(); ++i)
      if (subset >> i & 1)
        axes.push_back(static_cast<int>(i));
    WorldSpec spec;
    spec.mesh = mesh;
    for (int64_t size : {8, 7, 1})
      addEach(spec, axesOf(mesh, axes), KERF_F32, size);
    addEach(spec, axesOf(mesh, axes), KERF_F32, 12, 1);
    std::vector<int> reversed(axes.rbegin(), axes.rend());
    if (axes.size() > 1)
      addEach(spec, axesOf(mesh, reversed), KERF_F32, 5);
    run(spec);
  }
}

// Every element type on the whole mesh.
TEST_P(Conformance, EveryType) {
  WorldSpec spec;
  spec.mesh = mesh();
  SKIP_WITHOUT_RANKS(spec.mesh);
  std::vector<int> all;
  for (size_t i = 0; i < spec.mesh.axes.size(); ++i)
    all.push_back(static_cast<int>(i));
  for (int t = KERF_F32; t <= KERF_BOOL; ++t)
    addEach(spec, axesOf(spec.mesh, all), static_cast<kerf_dtype_t>(t), 6);
  run(spec);
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, Conformance,
    testing::Combine(
        testing::ValuesIn(implementations()),
        testing::Values(std::vector<int64_t>{1}, std::vector<int64_t>{2},
                        std::vector<int64_t>{3}, std::vector<int64_t>{5},
                        std::vector<int64_t>{7}, std::vector<int64_t>{2, 2},
                        std::vector<int64_t>{2, 3},
                        std::vector<int64_t>{2, 2, 2})),
    [](const auto &info) {
      std::string name = std::get<0>(info.param).name;
      for (int64_t size : std::get<1>(info.param))
        name += "_" + std::to_string(size);
      return name;
    });

class Collectives : public testing::TestWithParam<Implementation> {
protected:
  void runEach(const WorldSpec &spec,
               const std::function<void(int64_t, Comm &)> &body) const {
    expectNoFailure(runRanks(spec, body, nullptr, GetParam().make));
  }
};

INSTANTIATE_TEST_SUITE_P(All, Collectives, testing::ValuesIn(implementations()),
                         [](const auto &info) { return info.param.name; });

// Sub-axes cut one axis of 8 into digits: "a":(1)2, "a":(2)2, "a":(4)2.
TEST_P(Collectives, SubAxes) {
  WorldSpec spec;
  spec.mesh = meshOf({8});
  SKIP_WITHOUT_RANKS(spec.mesh);
  for (AxisList axes :
       {AxisList{{0, 2, 4}}, AxisList{{0, 2, 2}}, AxisList{{0, 2, 1}},
        AxisList{{0, 4, 2}}, AxisList{{0, 2, 1}, {0, 2, 4}}})
    addEach(spec, axes, KERF_F32, 5);
  runAll(spec, GetParam());
}

// A buffer of several cache-sized chunks, in place, whose size divides nothing.
TEST_P(Collectives, LargeAllReduceInPlace) {
  for (int64_t n : {2, 3, 4}) {
    WorldSpec spec;
    spec.mesh = meshOf({n});
    if (!enoughRanks(spec.mesh))
      continue;
    CollectiveDesc c;
    c.axes = axesOf(spec.mesh, {0});
    c.srcShape = c.dstShape = {300007};
    spec.collectives = {c};
    runEach(spec, [&](int64_t rank, Comm &comm) {
      std::vector<char> data = sourceOf(c, rank);
      comm.start(0, data.data(), data.data());
      comm.wait(0);
      expectResult(spec, c, rank, data);
    });
  }
}

// The sum is taken in the order of positions: the same bits on every run.
TEST_P(Collectives, AllReduceIsDeterministic) {
  WorldSpec spec;
  spec.mesh = meshOf({4});
  SKIP_WITHOUT_RANKS(spec.mesh);
  CollectiveDesc c;
  c.axes = axesOf(spec.mesh, {0});
  c.srcShape = c.dstShape = {5000};
  spec.collectives = {c};
  std::vector<std::vector<float>> src(4, std::vector<float>(5000));
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (auto &part : src)
    for (float &value : part)
      value = uniform(random);
  for (int repeat = 0; repeat < 5; ++repeat)
    runEach(spec, [&](int64_t rank, Comm &comm) {
      std::vector<float> dst(5000);
      comm.start(0, src[rank].data(), dst.data());
      comm.wait(0);
      for (size_t i = 0; i < dst.size(); ++i)
        ASSERT_EQ(dst[i], ((src[0][i] + src[1][i]) + src[2][i]) + src[3][i]);
    });
}

// Many rounds reuse the slots of a group; started ones overlap and are waited
// for in another order; groups of different axes interleave.
TEST_P(Collectives, StartedAndWaitedInAnyOrder) {
  WorldSpec spec;
  spec.mesh = meshOf({2, 2});
  SKIP_WITHOUT_RANKS(spec.mesh);
  for (std::vector<int> axes : {std::vector<int>{0, 1}, {0}, {1}, {0, 1}}) {
    CollectiveDesc c;
    c.axes = axesOf(spec.mesh, axes);
    c.srcShape = c.dstShape = {17};
    spec.collectives.push_back(c);
  }
  runEach(spec, [&](int64_t rank, Comm &comm) {
    std::vector<std::vector<char>> src, dst(4, std::vector<char>(17 * 4));
    for (const CollectiveDesc &c : spec.collectives)
      src.push_back(sourceOf(c, rank));
    for (int round = 0; round < 100; ++round) {
      for (int i = 0; i < 4; ++i)
        comm.start(i, src[i].data(), dst[i].data());
      comm.progress();
      for (int i : round % 2 ? std::vector<int>{3, 1, 0, 2}
                             : std::vector<int>{0, 2, 3, 1}) {
        comm.wait(i);
        expectResult(spec, spec.collectives[i], rank, dst[i]);
      }
    }
  });
}

// Ranks may wait for the same started collectives in different orders.
TEST_P(Collectives, WaitOrderMayDifferBetweenRanks) {
  WorldSpec spec;
  spec.mesh = meshOf({2});
  SKIP_WITHOUT_RANKS(spec.mesh);
  CollectiveDesc c;
  c.axes = axesOf(spec.mesh, {0});
  c.srcShape = c.dstShape = {3};
  spec.collectives = {c, c};
  runEach(spec, [&](int64_t rank, Comm &comm) {
    std::vector<char> src = sourceOf(c, rank), a(12), b(12);
    comm.start(0, src.data(), a.data());
    if (rank == 0) { // rank 1 waits for 0 before it starts 1
      comm.start(1, src.data(), b.data());
      comm.wait(1);
      comm.wait(0);
    } else {
      comm.wait(0);
      comm.start(1, src.data(), b.data());
      comm.wait(1);
    }
    expectResult(spec, c, rank, a);
    expectResult(spec, c, rank, b);
  });
}

// Sends are taken in order, may run ahead of receives, and pair equal
// coordinates of the other axes.
TEST_P(Collectives, SendAndReceive) {
  WorldSpec spec;
  spec.mesh = meshOf({2, 3}, /*stageAxis=*/0);
  SKIP_WITHOUT_RANKS(spec.mesh);
  spec.maxSends = 4;
  ChannelDesc down, up;
  down.toStage = 1;
  down.shape = {5};
  up.fromStage = 1;
  up.shape = {2};
  spec.channels = {down, up};
  runEach(spec, [&](int64_t rank, Comm &comm) {
    float other = static_cast<float>(rank % 3);
    if (rank < 3) {
      std::vector<std::vector<float>> data;
      std::vector<int64_t> numbers;
      for (int j = 0; j < 4; ++j) {
        data.push_back(
            std::vector<float>(5, 10 * other + static_cast<float>(j)));
        numbers.push_back(comm.send(0, data.back().data(), j));
      }
      for (int j = 0; j < 4; ++j) {
        std::vector<float> back(2);
        comm.receive(1, back.data(), j);
        EXPECT_EQ(back[1], 100 * other + static_cast<float>(j));
        comm.finishSend(0, numbers[j]);
      }
    } else {
      for (int j = 0; j < 4; ++j) {
        std::vector<float> got(5);
        comm.receive(0, got.data(), j);
        EXPECT_EQ(got[4], 10 * other + static_cast<float>(j));
        std::vector<float> reply(2, 100 * other + static_cast<float>(j));
        comm.finishSend(1, comm.send(1, reply.data(), j));
      }
    }
  });
}

// The group totals of docs/Package.md as integers, padding included.
TEST(CollectiveBytes, GroupBytesAreTheClosedForms) {
  CollectiveDesc c;
  c.kind = CollectiveKind::AllReduce;
  c.srcShape = c.dstShape = {10, 3};
  EXPECT_EQ(groupBytes(c, 4), 2 * 3 * 120);
  c.kind = CollectiveKind::ReduceScatter;
  c.dstShape = {3, 3};
  EXPECT_EQ(groupBytes(c, 4), 3 * 4 * 36); // (N-1) times the padded 12x3
  std::swap(c.srcShape, c.dstShape);
  c.kind = CollectiveKind::AllGather;
  EXPECT_EQ(groupBytes(c, 4), 3 * 4 * 36);
  c.kind = CollectiveKind::AllToAll;
  c.dim = 1;
  c.concatDim = 0;
  c.srcShape = {2, 8};
  c.dstShape = {8, 2};
  EXPECT_EQ(groupBytes(c, 4),
            3 * 8 * 8 * 4 / 4); // (N-1)S/N of the tensor of 8x8
  EXPECT_EQ(bufferBytes(c, 4), 8 * 8 * 4);
  c.kind = CollectiveKind::Broadcast;
  EXPECT_EQ(groupBytes(c, 4), 3 * 64);
  EXPECT_EQ(bytesPerRank(c, 4), 64);
  EXPECT_EQ(bytesPerRank(c, 1), 0);
}
} // namespace
