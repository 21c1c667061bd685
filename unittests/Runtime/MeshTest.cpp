//===- MeshTest.cpp - ranks, coordinates, groups, parts -------------------===//
#include "TestWorld.h"

using namespace kerf::rt;
using namespace kerf::rt::test;

namespace {

// The first axis is outermost: rank 5 of pp=2,tp=4 has pp=1, tp=1.
TEST(Mesh, RowMajorCoordinates) {
  Mesh mesh = meshOf({2, 4}, 0);
  EXPECT_EQ(mesh.coordinate(5, 0), 1);
  EXPECT_EQ(mesh.coordinate(5, 1), 1);
  EXPECT_EQ(mesh.stageOf(5), 1);
  EXPECT_EQ(mesh.withStage(5, 0), 1);
}

TEST(Mesh, GroupsAreOrderedByPosition) {
  Mesh mesh = meshOf({2, 2, 2});
  EXPECT_EQ(mesh.group(5, axesOf(mesh, {1})), (std::vector<int64_t>{5, 7}));
  EXPECT_EQ(mesh.group(1, axesOf(mesh, {0, 1})),
            (std::vector<int64_t>{1, 3, 5, 7}));
  EXPECT_EQ(mesh.group(1, axesOf(mesh, {1, 0})),
            (std::vector<int64_t>{1, 5, 3, 7}));
  EXPECT_EQ(mesh.group(6, {}), (std::vector<int64_t>{6}));
}

// "a":(1)2 is the major digit of an axis of 4, "a":(2)2 the minor.
TEST(Mesh, SubAxes) {
  Mesh mesh = meshOf({4});
  AxisList major = {{0, 2, 2}}, minor = {{0, 2, 1}};
  EXPECT_EQ(mesh.position(2, major), 1);
  EXPECT_EQ(mesh.position(2, minor), 0);
  EXPECT_EQ(mesh.group(1, major), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(mesh.group(1, minor), (std::vector<int64_t>{0, 1}));
}

TEST(Mesh, OverlappingDigitsAreRefused) {
  Mesh mesh = meshOf({4});
  EXPECT_THROW(mesh.group(0, {{0, 4, 1}, {0, 2, 1}}), Error);
  EXPECT_THROW(mesh.group(0, {{0, 2, 1}, {0, 2, 1}}), Error);
}

// 10 rows over 4 ranks: 3, 3, 3, 1; over 8: 2, 2, 2, 2, 2, 0, 0, 0.
TEST(Mesh, UnevenParts) {
  Mesh mesh = meshOf({8});
  Sharding sharding = {{axesOf(mesh, {0})}};
  EXPECT_EQ(localShape(sharding, {10}), (Shape{2}));
  EXPECT_EQ(partOf(mesh, sharding, {10}, 4, 0).starts, (Shape{8}));
  EXPECT_EQ(partOf(mesh, sharding, {10}, 5, 0).sizes, (Shape{0}));
  Mesh four = meshOf({4});
  Part last = partOf(four, {{axesOf(four, {0})}}, {10}, 3, 0);
  EXPECT_EQ(last.starts, (Shape{9}));
  EXPECT_EQ(last.sizes, (Shape{1}));
  // In blocks of 4: 4, 4, 2, 0.
  Sharding blocks = {{axesOf(four, {0}), 4}};
  EXPECT_EQ(localShape(blocks, {10}), (Shape{4}));
  EXPECT_EQ(partOf(four, blocks, {10}, 2, 0).starts, (Shape{8}));
  EXPECT_EQ(partOf(four, blocks, {10}, 2, 0).sizes, (Shape{2}));
  EXPECT_EQ(partOf(four, blocks, {10}, 3, 0).sizes, (Shape{0}));
}

// A time axis takes its coordinate from the micro-batch.
TEST(Mesh, TimeAxis) {
  Mesh mesh = meshOf({2});
  mesh.hasTimeAxis = true;
  mesh.timeAxis = {"mb", 3};
  Sharding sharding = {{{{Mesh::timeAxisIndex, 3, 1}, {0, 2, 1}}}};
  EXPECT_EQ(partOf(mesh, sharding, {12}, 1, 2).starts, (Shape{10}));
  EXPECT_EQ(partOf(mesh, sharding, {12}, 0, 1).starts, (Shape{4}));
}
} // namespace
