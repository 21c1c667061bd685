//===- ReshardTest.cpp - every reshard, executed on simulated ranks -------===//
//
// A tensor of distinct numbers is cut by `from` onto simulated ranks (padding
// is garbage, partial values are split at random), the steps are executed as
// docs/Package.md defines them, and every rank must hold its part of `to`.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Reshard.h"

#include "gtest/gtest.h"

#include <random>

using namespace kerf;
using namespace kerf::dist;

namespace {

using Shape = llvm::SmallVector<int64_t>;
constexpr int64_t kGarbage = 1000003;

struct Tensor {
  Shape shape;
  std::vector<int64_t> data;

  explicit Tensor(Shape shape, int64_t fill = 0) : shape(std::move(shape)) {
    int64_t size = 1;
    for (int64_t dim : this->shape)
      size *= dim;
    data.assign(size, fill);
  }
  Shape index(int64_t linear) const {
    Shape result(shape.size());
    for (size_t d = shape.size(); d-- > 0; linear /= shape[d])
      result[d] = linear % shape[d];
    return result;
  }
  /// Null outside.
  int64_t *at(const Shape &index) {
    int64_t linear = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (index[d] >= shape[d])
        return nullptr;
      linear = linear * shape[d] + index[d];
    }
    return &data[linear];
  }
};

using Ranks = std::vector<Tensor>;

struct World {
  const Mesh &mesh;
  Shape global;

  /// Global index of a local one.
  Shape toGlobal(const Layout &layout, int64_t rank, Shape index) const {
    auto at = mesh.coordinates(rank);
    Shape local = layout.localShape(global);
    for (size_t d = 0; d < index.size(); ++d)
      index[d] += linearIndex(mesh, layout.dims[d], at) * local[d];
    return index;
  }

  Ranks scatter(Tensor &whole, const Layout &layout, std::mt19937 &random) {
    Ranks ranks;
    int64_t parts = numShards(layout.partial);
    std::map<std::pair<std::vector<int64_t>, int64_t>, int64_t> shares;
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
      Tensor local(layout.localShape(global), kGarbage);
      int64_t part = linearIndex(mesh, layout.partial, mesh.coordinates(rank));
      for (size_t i = 0; i < local.data.size(); ++i) {
        Shape index = toGlobal(layout, rank, local.index(i));
        int64_t *value = whole.at(index);
        if (!value)
          continue;
        // Share `part` of a sum: random, the last one makes it right. Equal on
        // all ranks that hold the same share.
        int64_t others = 0, own = 0;
        for (int64_t p = 0; p < parts; ++p) {
          auto key = std::make_pair(
              std::vector<int64_t>(index.begin(), index.end()), p);
          auto [it, added] = shares.try_emplace(key, 0);
          if (added)
            it->second =
                p + 1 == parts ? *value - others : int64_t(random() % 100);
          others += it->second;
          if (p == part)
            own = it->second;
        }
        local.data[i] = own;
      }
      ranks.push_back(std::move(local));
    }
    return ranks;
  }

  bool holds(Tensor &whole, const Layout &layout, Ranks &ranks) const {
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
      if (Shape(ranks[rank].shape) != layout.localShape(global))
        return false;
      for (size_t i = 0; i < ranks[rank].data.size(); ++i)
        if (int64_t *value =
                whole.at(toGlobal(layout, rank, ranks[rank].index(i))))
          if (*value != ranks[rank].data[i])
            return false;
    }
    return true;
  }

  /// Ranks of each group, by position.
  std::vector<std::vector<int64_t>> groups(llvm::ArrayRef<AxisRef> axes) const {
    std::map<std::vector<int64_t>, std::vector<int64_t>> result;
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
      auto at = mesh.coordinates(rank);
      std::vector<int64_t> key(at.begin(), at.end());
      for (const AxisRef &ref : axes) {
        int64_t weight = mesh.axes[ref.axis].size / (ref.preSize * ref.size);
        key[ref.axis] -= (at[ref.axis] / weight) % ref.size * weight;
      }
      auto &group = result[key];
      group.resize(numShards(axes));
      group[linearIndex(mesh, axes, at)] = rank;
    }
    std::vector<std::vector<int64_t>> list;
    for (auto &[key, group] : result)
      list.push_back(group);
    return list;
  }

  void execute(const ReshardStep &step, Ranks &ranks) const {
    Ranks results(ranks.size(), Tensor(step.localShape, 0));
    for (const auto &group : groups(step.axes)) {
      int64_t n = group.size();
      ASSERT_EQ(n, step.groupSize);
      for (int64_t position = 0; position < n; ++position) {
        Tensor &out = results[group[position]];
        int64_t source = -1;
        for (auto [from, to] : step.pairs)
          if (to == position)
            source = from;
        for (size_t i = 0; i < out.data.size(); ++i)
          out.data[i] =
              element(step, ranks, group, position, source, out.index(i));
      }
    }
    ranks = std::move(results);
  }

  /// Element `index` of the result of the rank at `position`.
  int64_t element(const ReshardStep &step, Ranks &ranks,
                  const std::vector<int64_t> &group, int64_t position,
                  int64_t source, Shape index) const {
    auto read = [&](int64_t from, const Shape &at) {
      int64_t *value = ranks[group[from]].at(at);
      return value ? *value : 0;
    };
    auto sum = [&](const Shape &at) {
      int64_t total = 0;
      for (size_t from = 0; from < group.size(); ++from)
        total += read(from, at);
      return total;
    };
    if (step.isLocal()) {
      index[step.dim] += position * step.localShape[step.dim];
      return read(position, index);
    }
    switch (*step.kind) {
    case CollectiveKind::AllReduce:
      return sum(index);
    case CollectiveKind::ReduceScatter:
      index[step.dim] += position * step.localShape[step.dim];
      return sum(index);
    case CollectiveKind::AllGather: {
      int64_t part = ranks[group[0]].shape[step.dim];
      int64_t from = index[step.dim] / part;
      index[step.dim] %= part;
      return read(from, index);
    }
    case CollectiveKind::AllToAll: {
      int64_t part = ranks[group[0]].shape[step.concatDim];
      int64_t from = index[step.concatDim] / part;
      index[step.concatDim] %= part;
      index[step.dim] += position * step.localShape[step.dim];
      return read(from, index);
    }
    case CollectiveKind::Permute:
      return source < 0 ? 0 : read(source, index);
    case CollectiveKind::Broadcast:
      break; // no step of a reshard
    }
    return 0;
  }
};

/// All layouts of `rank` dimensions that put each atom on a dimension (in any
/// order), nowhere, or among the partial ones.
std::vector<Layout> allLayouts(llvm::ArrayRef<AxisRef> atoms, size_t rank,
                               bool partial) {
  std::vector<Layout> result{Layout(rank)};
  for (const AxisRef &atom : atoms) {
    std::vector<Layout> next;
    for (const Layout &layout : result) {
      next.push_back(layout);
      for (size_t dim = 0; dim < rank; ++dim)
        for (size_t at = 0; at <= layout.dims[dim].size(); ++at) {
          Layout more = layout;
          more.dims[dim].insert(more.dims[dim].begin() + at, atom);
          next.push_back(std::move(more));
        }
      if (partial) {
        Layout more = layout;
        more.partial.push_back(atom);
        next.push_back(std::move(more));
      }
    }
    result = std::move(next);
  }
  for (Layout &layout : result)
    layout.canonicalize();
  return result;
}

/// The same layouts, and with larger blocks in each dimension that is cut: one
/// element more than needed, and all but one in the first.
std::vector<Layout> withBlocks(std::vector<Layout> layouts,
                               const Shape &shape) {
  for (auto [dim, size] : llvm::enumerate(shape))
    for (size_t i = 0, end = layouts.size(); i < end; ++i) {
      int64_t min = layouts[i].localSize(dim, size);
      if (layouts[i].dims[dim].empty())
        continue;
      for (int64_t block : {min + 1, size - 1})
        if (block > min && block < size) {
          Layout more = layouts[i];
          more.setBlock(dim, size, block);
          if (layouts.back() != more)
            layouts.push_back(std::move(more));
        }
    }
  return layouts;
}

void checkAll(const Mesh &mesh, llvm::ArrayRef<AxisRef> atoms, Shape shape,
              unsigned every = 1, bool blocks = false) {
  std::mt19937 random(7);
  World world{mesh, shape};
  Tensor whole(shape);
  for (size_t i = 0; i < whole.data.size(); ++i)
    whole.data[i] = 17 * i + 5;
  auto sources = allLayouts(atoms, shape.size(), /*partial=*/true);
  auto targets = allLayouts(atoms, shape.size(), /*partial=*/false);
  if (blocks) {
    sources = withBlocks(std::move(sources), shape);
    targets = withBlocks(std::move(targets), shape);
  }
  unsigned count = 0;
  for (const Layout &from : sources) {
    for (const Layout &to : targets) {
      if (count++ % every)
        continue;
      auto reshard = decomposeReshard(from, to, shape, 4, mesh);
      std::string what = toString(from, mesh) + " -> " + toString(to, mesh);
      ASSERT_TRUE(reshard) << what;
      Ranks ranks = world.scatter(whole, from, random);
      std::string path;
      __int128 total = 0;
      for (const ReshardStep &step : reshard->steps) {
        path += " " + std::string(step.name()) + toString(step.axes, mesh) +
                toString(step.layout, mesh);
        world.execute(step, ranks);
        total += __int128(step.groupBytes) * (mesh.numRanks() / step.groupSize);
      }
      EXPECT_EQ(int64_t(total), reshard->totalBytes);
      ASSERT_TRUE(world.holds(whole, to, ranks)) << what << ":" << path;
      // Never dearer than to reduce and gather all, then cut.
      auto all = decomposeReshard(from, Layout(shape.size()), shape, 4, mesh);
      ASSERT_LE(reshard->totalBytes, all->totalBytes) << what << ":" << path;
    }
  }
}

AxisRef whole(const Mesh &mesh, unsigned axis) { return wholeAxis(mesh, axis); }

TEST(ReshardTest, AllOn2) {
  Mesh mesh{{{"x", 2}}};
  for (Shape shape : {Shape{4, 6}, Shape{3, 5}, Shape{1, 7}})
    checkAll(mesh, {whole(mesh, 0)}, shape);
}

TEST(ReshardTest, AllOn4) {
  Mesh mesh{{{"x", 2}, {"y", 2}}};
  for (Shape shape : {Shape{4, 8}, Shape{3, 5}, Shape{5, 9}, Shape{7, 2}})
    checkAll(mesh, {whole(mesh, 0), whole(mesh, 1)}, shape);
  Mesh line{{{"x", 4}}};
  for (Shape shape : {Shape{4, 8}, Shape{3, 5}, Shape{5, 9}})
    checkAll(line, {{0, 1, 2}, {0, 2, 2}}, shape);
}

TEST(ReshardTest, AllOn6) {
  Mesh mesh{{{"x", 2}, {"y", 3}}};
  for (Shape shape : {Shape{6, 12}, Shape{5, 7}, Shape{4, 9}, Shape{2, 3, 2}})
    checkAll(mesh, {whole(mesh, 0), whole(mesh, 1)}, shape);
  Mesh line{{{"x", 6}}};
  for (Shape shape : {Shape{6, 12}, Shape{5, 7}})
    checkAll(line, {{0, 1, 3}, {0, 3, 2}}, shape);
}

TEST(ReshardTest, AllOn8) {
  Mesh mesh{{{"x", 2}, {"y", 2}, {"z", 2}}};
  for (Shape shape : {Shape{8, 8}, Shape{5, 7}})
    checkAll(mesh, {whole(mesh, 0), whole(mesh, 1), whole(mesh, 2)}, shape);
  Mesh mixed{{{"x", 4}, {"y", 2}}};
  for (Shape shape : {Shape{8, 16}, Shape{3, 10}})
    checkAll(mixed, {{0, 1, 2}, {1, 1, 2}, {0, 2, 2}}, shape);
  for (Shape shape : {Shape{8, 4, 4}, Shape{3, 5, 2}})
    checkAll(mixed, {whole(mixed, 0), whole(mixed, 1)}, shape);
}

// Blocks of any size that holds the dimension, at either end.
TEST(ReshardTest, BlocksOfTheirOwnSize) {
  Mesh two{{{"x", 2}}};
  for (Shape shape : {Shape{4, 6}, Shape{3, 5}, Shape{1, 7}})
    checkAll(two, {whole(two, 0)}, shape, 1, true);
  Mesh mesh{{{"x", 2}, {"y", 2}}};
  for (Shape shape : {Shape{4, 8}, Shape{3, 5}, Shape{7, 2}})
    checkAll(mesh, {whole(mesh, 0), whole(mesh, 1)}, shape, 3, true);
  Mesh line{{{"x", 4}}};
  for (Shape shape : {Shape{6, 8}, Shape{5, 9}})
    checkAll(line, {{0, 1, 2}, {0, 2, 2}}, shape, 3, true);
  Mesh uneven{{{"x", 2}, {"y", 3}}};
  for (Shape shape : {Shape{5, 12}, Shape{2, 3, 2}})
    checkAll(uneven, {whole(uneven, 0), whole(uneven, 1)}, shape, 11, true);
  Mesh mixed{{{"x", 4}, {"y", 2}}};
  for (Shape shape : {Shape{12, 5}})
    checkAll(mixed, {{0, 1, 2}, {1, 1, 2}, {0, 2, 2}}, shape, 97, true);
}

/// Axes that a layout names, by bit.
unsigned axesOf(const Layout &layout) {
  unsigned result = 0;
  for (const AxisList &axes : layout.dims)
    for (const AxisRef &ref : axes)
      result |= 1u << ref.axis;
  for (const AxisRef &ref : layout.partial)
    result |= 1u << ref.axis;
  return result;
}

/// No way over a third layout of the same axes is shorter: a search that leaves
/// out ways, by a bound that is too high, misses some of them. (Of two axes:
/// with three, some ways over a third layout permute as no step does.)
void checkShortest(const Mesh &mesh, llvm::ArrayRef<AxisRef> atoms,
                   Shape shape) {
  auto sources = allLayouts(atoms, shape.size(), /*partial=*/true);
  auto targets = allLayouts(atoms, shape.size(), /*partial=*/false);
  ReshardWays ways;
  auto bytes = [&](const Layout &from, const Layout &to) {
    return ways.find(from, to, shape, 4, mesh)->totalBytes;
  };
  for (const Layout &from : sources)
    for (const Layout &to : targets)
      for (const Layout &middle : targets) {
        if (axesOf(middle) & ~(axesOf(from) | axesOf(to)))
          continue;
        ASSERT_LE(bytes(from, to), bytes(from, middle) + bytes(middle, to))
            << toString(from, mesh) << " -> " << toString(middle, mesh)
            << " -> " << toString(to, mesh);
      }
}

TEST(ReshardTest, NoDetourIsShorter) {
  Mesh mesh{{{"x", 2}, {"y", 2}}};
  for (Shape shape : {Shape{4, 8}, Shape{3, 5}, Shape{2, 3, 4}})
    checkShortest(mesh, {whole(mesh, 0), whole(mesh, 1)}, shape);
  Mesh uneven{{{"x", 2}, {"y", 3}}};
  for (Shape shape : {Shape{6, 12}, Shape{5, 7}})
    checkShortest(uneven, {whole(uneven, 0), whole(uneven, 1)}, shape);
}

struct Expectation {
  Layout from, to;
  Shape shape;
  std::vector<std::optional<CollectiveKind>> kinds;
  int64_t totalBytes;
};

std::vector<std::optional<CollectiveKind>> kindsOf(const Reshard &reshard) {
  std::vector<std::optional<CollectiveKind>> kinds;
  for (const ReshardStep &step : reshard.steps)
    kinds.push_back(step.kind);
  return kinds;
}

Layout layout(std::vector<AxisList> dims, AxisList partial = {}) {
  Layout result(dims.size());
  for (size_t i = 0; i < dims.size(); ++i)
    result.dims[i] = dims[i];
  result.partial = partial;
  result.canonicalize();
  return result;
}

// The steps that one would take by hand, with their ring bytes.
TEST(ReshardTest, CheapestSteps) {
  Mesh mesh{{{"x", 4}, {"y", 2}}};
  AxisRef x = wholeAxis(mesh, 0), y = wholeAxis(mesh, 1);
  auto run = [&](Layout from, Layout to, Shape shape) {
    return *decomposeReshard(from, to, shape, 4, mesh);
  };
  using Kinds = std::vector<std::optional<CollectiveKind>>;
  int64_t S = 8 * 8 * 4;
  // all-reduce: 2(N-1)S in each of the two groups.
  auto r = run(layout({{}, {}}, {x}), layout({{}, {}}), {8, 8});
  EXPECT_EQ(kindsOf(r), Kinds{CollectiveKind::AllReduce});
  EXPECT_EQ(r.totalBytes, 2 * 2 * 3 * S);
  // partial to sharded: reduce-scatter, half of it.
  r = run(layout({{}, {}}, {x}), layout({{x}, {}}), {8, 8});
  EXPECT_EQ(kindsOf(r), Kinds{CollectiveKind::ReduceScatter});
  EXPECT_EQ(r.totalBytes, 2 * 3 * S);
  // to another dimension: all-to-all, (N-1)S/N.
  r = run(layout({{x}, {}}), layout({{}, {x}}), {8, 8});
  EXPECT_EQ(kindsOf(r), Kinds{CollectiveKind::AllToAll});
  EXPECT_EQ(r.totalBytes, 2 * 3 * S / 4);
  // cut first, reduce what is left.
  r = run(layout({{}, {}}, {x}), layout({{}, {y}}), {8, 8});
  EXPECT_EQ(kindsOf(r), (Kinds{std::nullopt, CollectiveKind::AllReduce}));
  EXPECT_EQ(r.totalBytes, 2 * 2 * 3 * S / 2);
  // another order in a dimension: blocks are handed on.
  r = run(layout({{x, y}, {}}), layout({{y, x}, {}}), {8, 8});
  EXPECT_EQ(kindsOf(r), Kinds{CollectiveKind::Permute});
  // both axes at once.
  r = run(layout({{}, {}}, {x, y}), layout({{x, y}, {}}), {8, 8});
  EXPECT_EQ(kindsOf(r), Kinds{CollectiveKind::ReduceScatter});
  EXPECT_EQ(r.totalBytes, 7 * S);
  // 12 columns in blocks of 4: padding travels, 16 columns for 12.
  Layout heads = layout({{}, {x}});
  heads.setBlock(1, 12, 3);
  EXPECT_TRUE(heads.blocks.empty());
  heads.setBlock(1, 12, 4);
  r = run(layout({{}, {}}, {x}), heads, {8, 12});
  EXPECT_EQ(kindsOf(r), Kinds{CollectiveKind::ReduceScatter});
  EXPECT_EQ(r.totalBytes, 2 * 3 * (8 * 16 * 4));
  r = run(heads, layout({{}, {}}), {8, 12});
  EXPECT_EQ(kindsOf(r), Kinds{CollectiveKind::AllGather});
  EXPECT_EQ(r.totalBytes, 2 * 3 * (8 * 16 * 4));
  r = run(layout({{x}, {}}), heads, {8, 12});
  EXPECT_EQ(kindsOf(r), Kinds{CollectiveKind::AllToAll});
  EXPECT_EQ(r.totalBytes, 2 * 3 * (8 * 16 * 4) / 4);
  // other blocks on the same ranks: by way of the rows.
  r = run(heads, layout({{}, {x}}), {8, 12});
  EXPECT_EQ(kindsOf(r),
            (Kinds{CollectiveKind::AllToAll, CollectiveKind::AllToAll}));
  // nothing to do.
  EXPECT_TRUE(run(layout({{x}, {}}), layout({{x}, {}}), {8, 8}).steps.empty());
}

// 12 as 3 x 4 and as 4 x 3 have no common digits.
TEST(ReshardTest, IncompatibleSubAxes) {
  Mesh mesh{{{"x", 12}}};
  Shape shape{12, 24};
  World world{mesh, shape};
  Tensor whole(shape);
  for (size_t i = 0; i < whole.data.size(); ++i)
    whole.data[i] = i;
  std::mt19937 random(1);
  Layout from = layout({{{0, 1, 3}}, {{0, 3, 4}}});
  Layout to = layout({{{0, 1, 4}}, {{0, 4, 3}}});
  auto reshard = decomposeReshard(from, to, shape, 4, mesh);
  ASSERT_TRUE(reshard);
  Ranks ranks = world.scatter(whole, from, random);
  for (const ReshardStep &step : reshard->steps)
    world.execute(step, ranks);
  EXPECT_TRUE(world.holds(whole, to, ranks));
}

// Axes in time stay where they are; around them all is as ever.
TEST(ReshardTest, TimeStays) {
  Mesh mesh{{{"x", 2}, {"mb", 2, true}}};
  AxisRef x = wholeAxis(mesh, 0), mb = wholeAxis(mesh, 1);
  auto gather =
      decomposeReshard(layout({{mb, x}}), layout({{mb}}), {8}, 4, mesh);
  ASSERT_TRUE(gather);
  EXPECT_EQ(kindsOf(*gather), std::vector<std::optional<CollectiveKind>>{
                                  CollectiveKind::AllGather});
  EXPECT_EQ(gather->steps[0].localShape, Shape{4});
  EXPECT_FALSE(decomposeReshard(layout({{mb}}), layout({{}}), {8}, 4, mesh));
  EXPECT_FALSE(decomposeReshard(layout({{mb}, {}}), layout({{}, {mb}}), {8, 8},
                                4, mesh));
}

// A partial result over other axes cannot be made.
TEST(ReshardTest, NoNewPartials) {
  Mesh mesh{{{"x", 2}, {"y", 2}}};
  AxisRef x = wholeAxis(mesh, 0), y = wholeAxis(mesh, 1);
  EXPECT_FALSE(decomposeReshard(layout({{}}), layout({{}}, {x}), {4}, 4, mesh));
  auto kept =
      decomposeReshard(layout({{}}, {x, y}), layout({{}}, {y}), {4}, 4, mesh);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kindsOf(*kept), std::vector<std::optional<CollectiveKind>>{
                                CollectiveKind::AllReduce});
}

TEST(ReshardTest, KnownWaysAreTheSame) {
  Mesh mesh{{{"x", 2}}};
  ReshardWays ways;
  Layout from = layout({{wholeAxis(mesh, 0)}}), to = layout({{}});
  int64_t bytes = ways.find(from, to, {6}, 4, mesh)->totalBytes;
  EXPECT_EQ(ways.find(from, to, {6}, 4, mesh)->totalBytes, bytes);
  EXPECT_EQ(ways.find(from, to, {60}, 2, mesh)->totalBytes, 5 * bytes);
  EXPECT_NE(ways.find(from, to, {7}, 4, mesh)->totalBytes, bytes);
  EXPECT_FALSE(ways.find(to, layout({{}}, {wholeAxis(mesh, 0)}), {6}, 4, mesh));
}

// The names of axes, the order of dimensions and sizes that are cut evenly do
// not matter, nor what stays in place or has one element: the steps are those
// of the tensor all the same, as without what is known.
TEST(ReshardTest, WaysAreOfThePairThatIsAsked) {
  Mesh mesh{{{"x", 2}, {"y", 2}, {"z", 4}, {"m", 2, /*isTime=*/true}}};
  AxisRef x = wholeAxis(mesh, 0), y = wholeAxis(mesh, 1),
          z = wholeAxis(mesh, 2), m = wholeAxis(mesh, 3);
  AxisRef z0 = {2, 1, 2}, z1 = {2, 2, 2};
  struct Case {
    Layout from, to;
    llvm::SmallVector<int64_t> shape;
  };
  const Case cases[] = {
      {layout({{x}, {}, {y}, {}}), layout({{}, {}, {y}, {x}}), {4, 1, 4, 4}},
      {layout({{}, {x}, {}, {y}, {}}),
       layout({{x}, {}, {}, {y}, {}}),
       {4, 4, 1, 4, 1}},
      {layout({{m, x}, {}, {y}}), layout({{m}, {x}, {y}}), {8, 12, 20}},
      {layout({{m, z0}, {}, {y}}), layout({{m}, {z0}, {y}}), {16, 6, 20}},
      {layout({{z}, {}}), layout({{}, {z}}), {8, 8}},
      {layout({{z0, z1}, {}}), layout({{z0}, {z1}}), {8, 8}},
      {layout({{z}, {}}), layout({{}, {z}}), {8, 7}},
      {layout({{z}, {}}), layout({{}, {z}}), {5, 7}},
      {layout({{}, {}}, {x, y}), layout({{y}, {}}), {8, 3}},
      {layout({{}, {}}, {z}), layout({{}, {z}}), {3, 8}}};
  ReshardWays ways;
  for (const Case &each : cases)
    for (int64_t scale : {1, 3}) {
      llvm::SmallVector<int64_t> shape = each.shape;
      shape.back() *= scale;
      auto alone = decomposeReshard(each.from, each.to, shape, 2, mesh);
      auto known = ways.find(each.from, each.to, shape, 2, mesh);
      std::string name = toString(each.from, mesh) + " -> " +
                         toString(each.to, mesh) + " x" + std::to_string(scale);
      ASSERT_TRUE(alone && known) << name;
      EXPECT_EQ(alone->totalBytes, known->totalBytes) << name;
      ASSERT_EQ(alone->steps.size(), known->steps.size()) << name;
      EXPECT_EQ(known->steps.back().layout, each.to) << name;
      for (const ReshardStep &step : known->steps)
        EXPECT_EQ(step.localShape, step.layout.localShape(shape)) << name;
    }
  auto moved = ways.find(cases[1].from, cases[1].to, cases[1].shape, 4, mesh);
  ASSERT_EQ(moved->steps.size(), 1u);
  const ReshardStep &step = moved->steps[0];
  EXPECT_EQ(step.kind, CollectiveKind::AllToAll);
  EXPECT_EQ(step.axes, AxisList{x});
  EXPECT_EQ(step.dim, 0);
  EXPECT_EQ(step.concatDim, 1);
  EXPECT_EQ(step.layout, cases[1].to);
  EXPECT_EQ(step.localShape, (llvm::SmallVector<int64_t>{2, 4, 1, 2, 1}));
}

} // namespace
