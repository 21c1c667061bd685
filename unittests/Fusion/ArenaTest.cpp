//===- ArenaTest.cpp - offsets for buffers with known lives ---------------===//
#include "kerf/Fusion/Arena.h"

#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

#include <numeric>
#include <random>

using namespace kerf;

namespace {

// Buffers that follow one another share a place.
TEST(ArenaTest, ReusesWhatIsDead) {
  ArenaBuffer buffers[] = {{0, 1, 100}, {2, 3, 100}, {1, 2, 40}};
  auto plan = planArena(buffers, 64);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->offsets[0], plan->offsets[1]);
  EXPECT_EQ(plan->totalBytes, 128 + 64);
  EXPECT_EQ(plan->lowerBoundBytes, 128 + 64);
}

// A step both ends and begins lives: what is read there may not be overwritten.
TEST(ArenaTest, EndsAreIncluded) {
  ArenaBuffer buffers[] = {{0, 1, 64}, {1, 2, 64}};
  EXPECT_EQ(planArena(buffers, 64)->totalBytes, 128);
}

// Neither the largest first, nor by size times life, nor in the order of time
// reaches the bound here: what ended at the top must be placed first.
TEST(ArenaTest, PlacesWhatEndedAtTheTopFirst) {
  ArenaBuffer buffers[] = {
      {0, 1, 256}, {5, 5, 256}, {0, 3, 320}, {5, 8, 192}, {2, 5, 256}};
  auto plan = planArena(buffers, 64);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->totalBytes, 704);
  EXPECT_EQ(plan->lowerBoundBytes, 704);
  EXPECT_EQ(checkArena(buffers, *plan, 64), "");
}

// First fit places the small buffer, which lives longest, after the large ones,
// and above them; best fit puts it at the bottom.
TEST(ArenaTest, PlacesWhatLivesLongestAtTheBottom) {
  ArenaBuffer buffers[] = {{0, 3, 160 * 64},
                           {2, 9, 16 * 64},
                           {3, 5, 160 * 64},
                           {5, 8, 80 * 64},
                           {6, 7, 192 * 64}};
  auto plan = planArena(buffers, 64);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->lowerBoundBytes, 336 * 64);
  EXPECT_EQ(plan->totalBytes, plan->lowerBoundBytes);
  EXPECT_EQ(checkArena(buffers, *plan, 64), "");
}

TEST(ArenaTest, NothingTakesNoRoom) {
  EXPECT_EQ(planArena({}, 64)->totalBytes, 0);
  ArenaBuffer empty[] = {{0, 5, 0}, {0, 5, 64}};
  EXPECT_EQ(planArena(empty, 64)->totalBytes, 64);
}

TEST(ArenaTest, RefusesWhatOverflows) {
  ArenaBuffer buffers[] = {{0, 1, INT64_MAX - 10}};
  EXPECT_FALSE(planArena(buffers, 64));
  ArenaBuffer sum[] = {{0, 1, INT64_MAX / 2}, {0, 1, INT64_MAX / 2 + 1}};
  EXPECT_FALSE(planArena(sum, 64));
}

// The check itself notices an overlap, a wrong offset and a short arena.
TEST(ArenaTest, CheckNotices) {
  ArenaBuffer buffers[] = {{0, 1, 64}, {1, 2, 64}};
  ArenaPlan plan = *planArena(buffers, 64);
  EXPECT_EQ(checkArena(buffers, plan, 64), "");
  ArenaPlan overlap = plan;
  overlap.offsets[1] = overlap.offsets[0];
  EXPECT_EQ(checkArena(buffers, overlap, 64),
            "buffers 0 and 1 overlap while both are live");
  ArenaPlan odd = plan;
  odd.offsets[0] = 8;
  EXPECT_NE(checkArena(buffers, odd, 64), "");
  plan.totalBytes = 64;
  EXPECT_NE(checkArena(buffers, plan, 64), "");
}

// Random lives: never an overlap, never below the bound, never above the sum,
// the same offsets every time; on average close to the bound.
TEST(ArenaTest, RandomLives) {
  std::mt19937 random(7);
  double excess = 0;
  const int rounds = 300;
  for (int round = 0; round < rounds; ++round) {
    llvm::SmallVector<ArenaBuffer> buffers;
    int64_t count = 1 + random() % 60, sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      int64_t begin = random() % 50, size = random() % 2000;
      buffers.push_back({begin, begin + int64_t(random() % 8), size});
      sum += (size + 63) / 64 * 64;
    }
    auto plan = planArena(buffers, 64);
    ASSERT_TRUE(plan);
    ASSERT_EQ(checkArena(buffers, *plan, 64), "") << "round " << round;
    ASSERT_GE(plan->totalBytes, plan->lowerBoundBytes);
    ASSERT_LE(plan->totalBytes, sum);
    ASSERT_EQ(planArena(buffers, 64)->offsets, plan->offsets);
    if (plan->lowerBoundBytes)
      excess += double(plan->totalBytes) / double(plan->lowerBoundBytes) - 1;
  }
  EXPECT_LT(excess / rounds, 0.06);
}

/// The least bytes that hold the buffers: an arrangement in which none can move
/// down arises when they are laid down one by one, each as low as it can, in
/// the order of their offsets.
int64_t leastBytes(llvm::ArrayRef<ArenaBuffer> buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t least = INT64_MAX;
  do {
    std::vector<int64_t> offsets(buffers.size(), -1);
    int64_t total = 0;
    for (size_t i : order) {
      // Step by step upwards, until nothing that is live with it is in its way.
      int64_t offset = 0;
      for (bool free = false; !free; offset += !free) {
        free = true;
        for (size_t j = 0; j < buffers.size(); ++j)
          if (offsets[j] >= 0 && buffers[i].begin <= buffers[j].end &&
              buffers[j].begin <= buffers[i].end)
            free &= offset + buffers[i].sizeBytes <= offsets[j] ||
                    offsets[j] + buffers[j].sizeBytes <= offset;
      }
      offsets[i] = offset;
      total = std::max(total, offset + buffers[i].sizeBytes);
    }
    least = std::min(least, total);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

/// The lowest gap, byte by byte: each buffer takes the first multiple of 64
/// where it meets none that is placed.
std::vector<int64_t> firstFit(llvm::ArrayRef<ArenaBuffer> buffers) {
  std::vector<int64_t> order(buffers.size()), offsets(buffers.size(), 0);
  std::iota(order.begin(), order.end(), 0);
  auto rounded = [&](int64_t i) { return (buffers[i].sizeBytes + 63) / 64; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return rounded(a) > rounded(b);
  });
  auto meets = [&](int64_t i, int64_t j) {
    return rounded(i) && rounded(j) && buffers[i].begin <= buffers[j].end &&
           buffers[j].begin <= buffers[i].end &&
           offsets[i] < offsets[j] + rounded(j) &&
           offsets[j] < offsets[i] + rounded(i);
  };
  for (size_t n = 0; n < order.size(); ++n)
    while (llvm::any_of(llvm::ArrayRef(order).take_front(n),
                        [&](int64_t j) { return meets(order[n], j); }))
      ++offsets[order[n]];
  for (int64_t &offset : offsets)
    offset *= 64;
  return offsets;
}

// First fit by size is tried first, and kept where it reaches the bound.
TEST(ArenaTest, FirstFitIsTheLowestGap) {
  std::mt19937 random(7);
  int numKept = 0;
  for (int round = 0; round < 300; ++round) {
    int64_t steps = 1 + random() % 12;
    std::vector<ArenaBuffer> buffers(1 + random() % 24);
    for (ArenaBuffer &buffer : buffers) {
      buffer.begin = random() % steps;
      buffer.end = round % 3 == 0 ? steps : buffer.begin + random() % steps;
      buffer.sizeBytes = random() % 6 * 64;
    }
    std::vector<int64_t> offsets = firstFit(buffers);
    int64_t total = 0;
    for (auto [offset, buffer] : llvm::zip(offsets, buffers))
      total = std::max(total, offset + buffer.sizeBytes);
    auto plan = planArena(buffers, 64);
    EXPECT_LE(plan->totalBytes, total);
    if (total != plan->lowerBoundBytes)
      continue;
    ++numKept;
    EXPECT_EQ(std::vector<int64_t>(plan->offsets.begin(), plan->offsets.end()),
              offsets);
  }
  EXPECT_GT(numKept, 100);
}

// Every order of few buffers: the bound is one, and the plan seldom needs more
// than the least. Bytes one by one, without alignment: no two that are live at
// one time share one.
TEST(ArenaTest, EveryOrderOfSmallProblems) {
  std::mt19937 random(11);
  int64_t bytes = 0, least = 0;
  for (int round = 0; round < 400; ++round) {
    llvm::SmallVector<ArenaBuffer> buffers;
    for (unsigned count = 1 + random() % 6; count > 0; --count) {
      int64_t begin = random() % 6;
      buffers.push_back(
          {begin, begin + int64_t(random() % 4), 1 + int64_t(random() % 6)});
    }
    auto plan = planArena(buffers, 1);
    ASSERT_TRUE(plan);
    int64_t peak = 0;
    for (int64_t time = 0; time < 10; ++time) {
      std::vector<int> users(plan->totalBytes, 0);
      int64_t live = 0;
      for (auto [i, buffer] : llvm::enumerate(buffers)) {
        if (time < buffer.begin || time > buffer.end)
          continue;
        live += buffer.sizeBytes;
        for (int64_t byte = 0; byte < buffer.sizeBytes; ++byte)
          ASSERT_EQ(++users.at(plan->offsets[i] + byte), 1)
              << "round " << round;
      }
      peak = std::max(peak, live);
    }
    int64_t optimum = leastBytes(buffers);
    ASSERT_EQ(plan->lowerBoundBytes, peak);
    ASSERT_LE(peak, optimum);
    ASSERT_LE(optimum, plan->totalBytes);
    bytes += plan->totalBytes;
    least += optimum;
  }
  EXPECT_LE(bytes * 100, least * 103);
}

} // namespace
