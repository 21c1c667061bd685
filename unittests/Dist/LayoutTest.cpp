//===- LayoutTest.cpp - arithmetic of meshes and layouts ------------------===//
#include "kerf/Dist/Layout.h"

#include "gtest/gtest.h"

using namespace kerf;
using namespace kerf::dist;

static const Mesh mesh{{{"pp", 2}, {"x", 12}, {"mb", 3, true}}};

// Ranks are row-major over the axes in space; time counts apart.
TEST(LayoutTest, Coordinates) {
  EXPECT_EQ(mesh.numRanks(), 24);
  EXPECT_EQ(mesh.numMicroBatches(), 3);
  auto at = mesh.coordinates(17, 2);
  EXPECT_EQ(at[0], 1);
  EXPECT_EQ(at[1], 5);
  EXPECT_EQ(at[2], 2);
}

// Coordinate 7 of 12 is the digits 1, 0, 1 of 2 x 3 x 2.
TEST(LayoutTest, SubAxesAreDigits) {
  auto at = mesh.coordinates(7);
  EXPECT_EQ(linearIndex(mesh, {{1, 1, 2}}, at), 1);
  EXPECT_EQ(linearIndex(mesh, {{1, 2, 3}}, at), 0);
  EXPECT_EQ(linearIndex(mesh, {{1, 6, 2}}, at), 1);
  EXPECT_EQ(linearIndex(mesh, {{1, 1, 12}}, at), 7);
  // Minor digit first: 1 * 2 + 1.
  EXPECT_EQ(linearIndex(mesh, {{1, 6, 2}, {1, 1, 2}}, at), 3);
}

TEST(LayoutTest, Overlap) {
  EXPECT_TRUE(overlap({1, 1, 4}, {1, 2, 2}));
  EXPECT_TRUE(overlap({1, 1, 4}, {1, 1, 12}));
  EXPECT_FALSE(overlap({1, 1, 4}, {1, 4, 3}));
  EXPECT_FALSE(overlap({1, 1, 2}, {0, 1, 2}));
  // 3 does not continue the digits 2 x 2.
  EXPECT_TRUE(overlap({1, 1, 2}, {1, 3, 4}));
}

TEST(LayoutTest, CheckNamesTheFault) {
  Layout layout(2);
  layout.dims[0] = {{1, 1, 12}};
  EXPECT_EQ(checkLayout(layout, mesh, 2), "");
  EXPECT_EQ(checkLayout(layout, mesh, 1),
            "sharding has 2 dimensions, expected 1");
  layout.partial = {{1, 1, 12}};
  EXPECT_EQ(checkLayout(layout, mesh, 2), "axis x is used twice");
  layout.partial = {{1, 1, 5}};
  EXPECT_EQ(checkLayout(layout, mesh, 2),
            "sub-axis x:(1)5 does not divide axis \"x\" of size 12");
}

// Consecutive digits are one axis reference.
TEST(LayoutTest, CanonicalFormMerges) {
  Layout split(1), whole(1);
  split.dims[0] = {{1, 1, 2}, {1, 2, 3}, {1, 6, 2}};
  whole.dims[0] = {{1, 1, 12}};
  EXPECT_NE(split, whole);
  split.canonicalize();
  EXPECT_EQ(split, whole);
  EXPECT_EQ(hash_value(split), hash_value(whole));
  EXPECT_EQ(toString(split, mesh), "<{x}>");
}

TEST(LayoutTest, LocalShapeRoundsUp) {
  Layout layout(2);
  layout.dims[1] = {{1, 1, 4}, {0, 1, 2}};
  EXPECT_EQ(layout.localShape({5, 9}), (llvm::SmallVector<int64_t>{5, 2}));
}

// 12 heads of 64 columns over 8 ranks: two heads on each of six.
TEST(LayoutTest, BlocksOfTheirOwnSize) {
  Layout layout(2), plain(2);
  layout.dims[1] = plain.dims[1] = {{1, 1, 4}, {0, 1, 2}};
  layout.setBlock(1, 768, 128);
  EXPECT_EQ(layout.localShape({5, 768}), (llvm::SmallVector<int64_t>{5, 128}));
  EXPECT_TRUE(layout.isUneven(1, 768));
  EXPECT_FALSE(plain.isUneven(1, 768));
  EXPECT_NE(layout, plain);
  EXPECT_EQ(toString(layout, mesh), "<{}, {x:(1)4, pp}:128>");
  EXPECT_EQ(checkLayout(layout, mesh, 2), "");
  EXPECT_EQ(checkBlocks(layout, {5, 768}), "");
  EXPECT_EQ(checkBlocks(layout, {5, 1024}),
            "dimension 1 of 1024 in 8 parts has blocks of 128, expected more "
            "than 128, which needs no mention, and less than 1024");
  EXPECT_EQ(checkBlocks(layout, {5, 100}),
            "dimension 1 of 100 in 8 parts has blocks of 128, expected more "
            "than 13, which needs no mention, and less than 100");
  // What makes no difference is not kept.
  layout.setBlock(1, 768, 96);
  EXPECT_EQ(layout, plain);
  EXPECT_EQ(hash_value(layout), hash_value(plain));
  layout.setBlock(0, 5, 3);
  EXPECT_EQ(layout, plain);
  layout.blocks = {3, 0};
  EXPECT_EQ(checkLayout(layout, mesh, 2),
            "dimension 0 has blocks of 3 but is not cut");
}
