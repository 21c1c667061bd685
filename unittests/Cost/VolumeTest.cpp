//===- VolumeTest.cpp - closed forms, as integers -------------------------===//
//
// The article's three formulas, the ring volumes, the closed forms of
// docs/CostModel.md for known models built from single collectives, and sums
// that pass 64 bits.
//
//===----------------------------------------------------------------------===//
#include "kerf/Cost/Volume.h"

#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::cost;

namespace {

constexpr int64_t kSizes[] = {2, 4, 8};
constexpr int64_t kGPT2Parameters = 124'439'808;

/// Bytes of the busiest rank under ring.
int64_t ring(CollectiveKind kind, int64_t bytes, int64_t n) {
  return collectiveVolume(VolumeModel::Ring, kind, bytes, n).bytesPerRank;
}
int64_t allReduce(int64_t bytes, int64_t n) {
  return ring(CollectiveKind::AllReduce, bytes, n);
}
/// A row-split layer's output: scattered forward, gathered in backward.
int64_t scatterAndGather(int64_t bytes, int64_t n) {
  return ring(CollectiveKind::ReduceScatter, bytes, n) +
         ring(CollectiveKind::AllGather, bytes, n);
}

struct Row {
  int64_t expected[3];
  template <typename Formula> void check(Formula formula) const {
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(formula(kSizes[i]), expected[i]) << "N = " << kSizes[i];
  }
};

// Both models, every collective, the smallest sizes that differ.
TEST(Volume, TableOfTotals) {
  struct {
    CollectiveKind kind;
    int64_t ring, article;
  } rows[] = {
      {CollectiveKind::AllReduce, 2 * 3 * 16, 4 * 3 * 16},
      {CollectiveKind::ReduceScatter, 3 * 16, 3 * 16},
      {CollectiveKind::AllGather, 3 * 16, 3 * 16},
      {CollectiveKind::AllToAll, 3 * 16 / 4, 3 * 16 / 4},
      {CollectiveKind::Broadcast, 3 * 16, 3 * 16},
      {CollectiveKind::Permute, 16, 16},
  };
  for (auto &row : rows) {
    auto total = [&](VolumeModel model) {
      return collectiveVolume(model, row.kind, 16, 4).totalBytes;
    };
    EXPECT_EQ(total(VolumeModel::Ring), row.ring) << collectiveName(row.kind);
    EXPECT_EQ(total(VolumeModel::Article), row.article)
        << collectiveName(row.kind);
  }
}

// A group of one and an empty buffer move nothing.
TEST(Volume, NothingToMove) {
  for (VolumeModel model : {VolumeModel::Ring, VolumeModel::Article})
    for (auto kind : {CollectiveKind::AllReduce, CollectiveKind::Permute}) {
      EXPECT_EQ(collectiveVolume(model, kind, 100, 1).totalBytes, 0);
      EXPECT_EQ(collectiveVolume(model, kind, 0, 8).steps, 0);
    }
}

// Totals are integers whatever N divides; the busiest rank rounds up.
TEST(Volume, DoesNotDivide) {
  Volume volume =
      collectiveVolume(VolumeModel::Ring, CollectiveKind::AllReduce, 10, 3);
  EXPECT_EQ(volume.totalBytes, 40);
  EXPECT_EQ(volume.bytesPerRank, 14);
  EXPECT_EQ(volume.steps, 4);
  volume = collectiveVolume(VolumeModel::Ring, CollectiveKind::AllToAll, 10, 3);
  EXPECT_EQ(volume.totalBytes, 7);
}

// The largest tensors on the largest groups: exact in 128 bits.
TEST(Volume, NeverWraps) {
  int64_t s = std::numeric_limits<int64_t>::max();
  int64_t n = int64_t(1) << 31;
  Volume volume =
      collectiveVolume(VolumeModel::Article, CollectiveKind::AllReduce, s, n);
  EXPECT_EQ(volume.totalBytes, Int128(n) * (n - 1) * s);
  EXPECT_EQ(volume.bytesPerRank, s);
  EXPECT_EQ(toString(articleDataParallelBytes(s, 1, 1024)),
            "9661961823951294106174464");
}

TEST(Volume, NamesRoundTrip) {
  for (auto kind : {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
                    CollectiveKind::AllGather, CollectiveKind::AllToAll,
                    CollectiveKind::Broadcast, CollectiveKind::Permute})
    EXPECT_EQ(parseCollectiveKind(collectiveName(kind)), kind);
  EXPECT_EQ(parseVolumeModel("article"), VolumeModel::Article);
  EXPECT_FALSE(parseVolumeModel("rings"));
}

// The article's formulas as printed: data, vertical, horizontal.
TEST(Volume, ArticleFormulas) {
  EXPECT_EQ(articleDataParallelBytes(100, 4, 3), 100 * 4 * 3 * 2);
  EXPECT_EQ(articleVerticalBytes({10, 20, 30}, 4, 3), 60 * 4 * 3 * 2);
  EXPECT_EQ(articleHorizontalBytes({10, 20, 0}, 4), 30 * 4);
}

// GPT-2 124M, bf16, 524,288 tokens, 8 devices: pipeline wins under `article`,
// data parallelism under `ring`.
TEST(Volume, ModelsDisagree) {
  std::vector<int64_t> boundaries(7, int64_t(524'288) * 768);
  boundaries.push_back(0);
  Int128 articleData = articleDataParallelBytes(kGPT2Parameters, 2, 8);
  Int128 articlePipe = articleHorizontalBytes(boundaries, 2);
  Int128 ringData = ringDataParallelBytes(kGPT2Parameters, 2, 8);
  Int128 ringPipe = ringHorizontalBytes(boundaries, 2);
  EXPECT_EQ(articleData, 13'937'258'496);
  EXPECT_EQ(articlePipe, 5'637'144'576);
  EXPECT_EQ(ringData, 3'484'314'624);
  EXPECT_EQ(ringPipe, 11'274'289'152);
  EXPECT_LT(articlePipe, articleData);
  EXPECT_GT(ringPipe, ringData);
  // One large tensor: the vertical split in both, by N/2.
  EXPECT_EQ(articleVerticalBytes({1000}, 2, 8),
            4 * ringVerticalBytes({1000}, 2, 8));
}

TEST(ClosedForms, GPT2Data) {
  Row{{248'879'616, 373'319'424, 435'539'328}}.check(
      [](int64_t n) { return allReduce(kGPT2Parameters * 2, n); });
}

TEST(ClosedForms, GPT2ZeRO3) {
  Row{{373'319'424, 559'979'136, 653'308'992}}.check([](int64_t n) {
    int64_t bytes = kGPT2Parameters * 2;
    return 2 * ring(CollectiveKind::AllGather, bytes, n) +
           ring(CollectiveKind::ReduceScatter, bytes, n);
  });
}

// 48 all-reduces in the layers, one in the embedding, one at the head.
TEST(ClosedForms, GPT2Tensor) {
  Row{{629'145'600, 943'718'400, 1'101'004'800}}.check(
      [](int64_t n) { return 50 * allReduce(8192 * 768 * 2, n); });
}

TEST(ClosedForms, GPT3Layer) {
  int64_t h = 12'288;
  Row{{3'623'878'656, 5'435'817'984, 6'341'787'648}}.check(
      [&](int64_t n) { return allReduce(12 * h * h * 2, n); });
  Row{{201'326'592, 301'989'888, 352'321'536}}.check(
      [&](int64_t n) { return 4 * allReduce(2048 * h * 2, n); });
}

TEST(ClosedForms, ConvolutionalNetsData) {
  Row{{553'430'176, 830'145'264, 968'502'808}}.check(
      [](int64_t n) { return allReduce(138'357'544 * 4, n); });
  Row{{244'403'360, 366'605'040, 427'705'880}}.check(
      [](int64_t n) { return allReduce(61'100'840 * 4, n); });
  Row{{102'228'128, 153'342'192, 178'899'224}}.check(
      [](int64_t n) { return allReduce(25'557'032 * 4, n); });
}

/// Convolutions by data, the fully connected layers in three ways (B = 256).
struct FullyConnected {
  int64_t convolution, input;
  static constexpr int64_t kBatchBytes = 256 * 4;
  int64_t data(int64_t n) const { return allReduce(convolution * 4, n); }
  /// Every layer gathers its input; its gradient is scattered for the first,
  /// all-reduced for the others, whose output is gathered at the end.
  int64_t columns(int64_t n) const {
    return data(n) + scatterAndGather(kBatchBytes * input, n) +
           2 * scatterAndGather(kBatchBytes * 4096, n) +
           ring(CollectiveKind::AllGather, kBatchBytes * 1000, n);
  }
  int64_t columnRowRow(int64_t n) const {
    return data(n) + scatterAndGather(kBatchBytes * input, n) +
           scatterAndGather(kBatchBytes * 4096, n) +
           scatterAndGather(kBatchBytes * 1000, n);
  }
  int64_t rows(int64_t n) const {
    return data(n) +
           2 * ring(CollectiveKind::AllToAll, kBatchBytes * input, n) +
           2 * scatterAndGather(kBatchBytes * 4096, n) +
           scatterAndGather(kBatchBytes * 1000, n);
  }
};

TEST(ClosedForms, VGG16Layouts) {
  FullyConnected vgg{14'714'688, 25'088};
  Row{{93'449'472, 140'174'208, 163'536'576}}.check(
      [&](int64_t n) { return vgg.columns(n); });
  Row{{89'767'168, 134'650'752, 157'092'544}}.check(
      [&](int64_t n) { return vgg.columnRowRow(n); });
  Row{{81'116'416, 112'040'832, 125'094'592}}.check(
      [&](int64_t n) { return vgg.rows(n); });
}

TEST(ClosedForms, AlexNetLayouts) {
  FullyConnected alex{2'469'696, 9216};
  Row{{28'216'576, 42'324'864, 49'379'008}}.check(
      [&](int64_t n) { return alex.columns(n); });
  Row{{24'534'272, 36'801'408, 42'934'976}}.check(
      [&](int64_t n) { return alex.columnRowRow(n); });
  Row{{24'009'984, 32'476'032, 35'824'320}}.check(
      [&](int64_t n) { return alex.rows(n); });
}

TEST(ClosedForms, ResNet50Row) {
  Row{{96'104'704, 143'370'624, 166'806'976}}.check([](int64_t n) {
    return allReduce(23'508'032 * 4, n) + scatterAndGather(256 * 4 * 1000, n) +
           2 * ring(CollectiveKind::AllToAll, 256 * 4 * 2048, n);
  });
}

// Layers by data, the embedding table by vocabulary: activations are gathered
// and scattered at both ends (8fTh in bf16).
TEST(ClosedForms, GPT2VocabularySharded) {
  Row{{196'850'688, 295'276'032, 344'488'704}}.check([](int64_t n) {
    return allReduce((kGPT2Parameters - 38'597'376) * 2, n) +
           2 * scatterAndGather(8192 * 768 * 2, n);
  });
}

// Three f32 all-reduces per token for a vocabulary-parallel cross entropy.
TEST(ClosedForms, LossStatistics) {
  Row{{98'304, 147'456, 172'032}}.check(
      [](int64_t n) { return 3 * allReduce(8192 * 4, n); });
}

// Data parallelism beats the tensor split of a transformer layer iff T > 3h.
TEST(ClosedForms, DataBeatsTensor) {
  for (int64_t h : {64, 768})
    for (int64_t n : kSizes) {
      int64_t data = allReduce(12 * h * h * 2, n);
      auto tensor = [&](int64_t t) { return 4 * allReduce(t * h * 2, n); };
      EXPECT_EQ(data, tensor(3 * h));
      EXPECT_LT(data, tensor(3 * h + n));
      EXPECT_GT(data, tensor(3 * h - n));
    }
}

} // namespace
