//===- DataTest.cpp - training data: files, columns, batches --------------===//
//
// Every kind of file is written here byte by byte; what does not fit must say
// both sides; the order of samples must depend on seed and epoch alone.
//
//===----------------------------------------------------------------------===//
#include "TestPackage.h"
#include "run/Zip.h"
#include "train/Batches.h"

#include <gmock/gmock.h>
#ifdef KERF_TEST_ZLIB
#include <zlib.h>
#endif

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

using namespace kerf::rt;
using namespace kerf::rt::test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()),
          values.size() * sizeof(T)};
}

template <typename T>
std::string npy(kerf_dtype_t dtype, const std::vector<int64_t> &shape,
                const std::vector<T> &values) {
  std::string file;
  formatNpy(dtype, shape, values.data(), values.size() * sizeof(T), file);
  return file;
}

template <typename T> std::string little(T value) {
  return {reinterpret_cast<const char *>(&value), sizeof(T)};
}

struct Member {
  std::string name, content;
  bool deflated = false;
};

// An archive as numpy.savez writes it.
std::string zip(const std::vector<Member> &members) {
  std::string file, directory;
  for (const Member &m : members) {
    std::string packed = m.content;
    uint32_t crc = 0;
#ifdef KERF_TEST_ZLIB
    crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef *>(m.content.data()),
              static_cast<uInt>(m.content.size())));
    if (m.deflated) {
      z_stream stream = {};
      deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, 0);
      packed.resize(deflateBound(&stream, m.content.size()));
      stream.next_in =
          reinterpret_cast<Bytef *>(const_cast<char *>(m.content.data()));
      stream.avail_in = static_cast<uInt>(m.content.size());
      stream.next_out = reinterpret_cast<Bytef *>(packed.data());
      stream.avail_out = static_cast<uInt>(packed.size());
      deflate(&stream, Z_FINISH);
      packed.resize(stream.total_out);
      deflateEnd(&stream);
    }
#endif
    std::string common = little<uint16_t>(20) + little<uint16_t>(0) +
                         little<uint16_t>(m.deflated ? 8 : 0) +
                         little<uint32_t>(0) + little(crc) +
                         little(uint32_t(packed.size())) +
                         little(uint32_t(m.content.size())) +
                         little(uint16_t(m.name.size())) + little<uint16_t>(0);
    directory += "PK\1\2" + little<uint16_t>(20) + common +
                 little<uint16_t>(0) + little<uint16_t>(0) +
                 little<uint16_t>(0) + little<uint32_t>(0) +
                 little(uint32_t(file.size())) + m.name;
    file += "PK\3\4" + common + m.name + packed;
  }
  uint32_t offset = static_cast<uint32_t>(file.size());
  return file + directory + "PK\5\6" + little<uint32_t>(0) +
         little(uint16_t(members.size())) + little(uint16_t(members.size())) +
         little(uint32_t(directory.size())) + little(offset) +
         little<uint16_t>(0);
}

const std::vector<float> kX = {1, 2, 3, 4, 5, 6, 7, 8};
const std::vector<int32_t> kLabels = {0, 1, 1, 0};
const std::vector<DataInput> kInputs = {{"x", KERF_F32, {2, 2}, false},
                                        {"labels", KERF_I64, {2}, true}};

std::string messageOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    EXPECT_EQ(exitCode(error.code), 2);
    return error.message;
  }
  return "";
}

template <typename T>
std::vector<T> sampleOf(const Samples &samples, size_t column, int64_t index) {
  std::vector<T> values(samples.columns[column].elements);
  samples.columns[column].read(index, reinterpret_cast<char *>(values.data()));
  return values;
}

void expectSamples(const std::string &path) {
  Samples samples = bindColumns(openData(path, 0), kInputs);
  EXPECT_EQ(samples.count, 4);
  EXPECT_THAT(sampleOf<float>(samples, 0, 2), ElementsAre(5, 6));
  EXPECT_THAT(sampleOf<int64_t>(samples, 1, 2), ElementsAre(1));
}

TEST(Data, NpzStored) {
  TempDir dir;
  dir.write("d.npz", zip({{"x.npy", npy(KERF_F32, {4, 2}, kX)},
                          {"labels.npy", npy(KERF_I32, {4}, kLabels)}}));
  expectSamples(dir.path("d.npz"));
}

#ifdef KERF_TEST_ZLIB
TEST(Data, NpzStoredDamaged) {
  TempDir dir;
  std::string file = zip({{"x.npy", npy(KERF_F32, {4, 2}, kX)},
                          {"labels.npy", npy(KERF_I32, {4}, kLabels)}});
  size_t value = file.find(little(6.f));
  ASSERT_NE(value, std::string::npos);
  file[value + 1] = static_cast<char>(file[value + 1] ^ 1);
  dir.write("d.npz", file);
  EXPECT_THAT(messageOf([&] { expectSamples(dir.path("d.npz")); }),
              HasSubstr("x.npy is damaged: its checksum differs"));
}

TEST(Data, NpzDeflated) {
  TempDir dir;
  std::string file = zip({{"x.npy", npy(KERF_F32, {4, 2}, kX), true},
                          {"labels.npy", npy(KERF_I32, {4}, kLabels), true}});
  dir.write("d.npz", file);
  expectSamples(dir.path("d.npz"));
  // Damage anywhere is an error or leaves the arrays as they are (names and
  // times are not covered); never a crash.
  for (size_t i = 0; i < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    dir.write("e.npz", damaged);
    messageOf([&] { expectSamples(dir.path("e.npz")); });
  }
}
#endif

TEST(Data, NpzCutOff) {
  TempDir dir;
  std::string file = zip({{"x.npy", npy(KERF_F32, {4, 2}, kX)},
                          {"labels.npy", npy(KERF_I32, {4}, kLabels)}});
  for (size_t size = 0; size < file.size(); size += 3) {
    dir.write("d.npz", file.substr(0, size));
    EXPECT_THAT(messageOf([&] { openData(dir.path("d.npz"), 0); }),
                HasSubstr("d.npz: not a readable .npz file"));
  }
}

TEST(Data, Safetensors) {
  TempDir dir;
  std::string header =
      R"({"x":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]},)"
      R"("labels":{"dtype":"I32","shape":[4],"data_offsets":[32,48]}})";
  std::string file =
      little<uint64_t>(header.size()) + header + bytesOf(kX) + bytesOf(kLabels);
  dir.write("d.safetensors", file);
  expectSamples(dir.path("d.safetensors"));
  dir.write("d.safetensors", file.substr(0, file.size() - 1));
  EXPECT_THAT(messageOf([&] { openData(dir.path("d.safetensors"), 0); }),
              HasSubstr("d.safetensors: "));
}

TEST(Data, FolderOfNpy) {
  TempDir dir;
  dir.write("x.npy", npy(KERF_F32, {4, 2}, kX));
  dir.write("labels.npy", npy(KERF_I32, {4}, kLabels));
  dir.write("notes.txt", "nothing");
  expectSamples(dir.path(""));
}

// Windows of three tokens; labels are the next ones.
TEST(Data, Tokens) {
  std::vector<DataInput> inputs = {{"ids", KERF_I64, {2, 3}, false},
                                   {"labels", KERF_I64, {2, 3}, true}};
  TempDir dir;
  std::vector<uint16_t> words = {10, 11, 12, 13, 14, 15, 16, 17};
  dir.write("t.bin", bytesOf(words));
  dir.write("t.npy", npy(KERF_U16, {8}, words));
  dir.write("t.txt", "\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11");
  for (const char *name : {"t.bin", "t.npy", "t.txt"}) {
    Samples samples = bindColumns(openData(dir.path(name), 3), inputs);
    ASSERT_EQ(samples.count, 2) << name;
    EXPECT_THAT(sampleOf<int64_t>(samples, 0, 1), ElementsAre(13, 14, 15));
    EXPECT_THAT(sampleOf<int64_t>(samples, 1, 1), ElementsAre(14, 15, 16));
  }
  EXPECT_THAT(
      messageOf([&] { bindColumns(openData(dir.path("t.bin"), 4), inputs); }),
      HasSubstr(
          "option sequence-length is 4, input \"ids\" has sequences of 3"));
  dir.write("short.bin", bytesOf(std::vector<uint16_t>{1, 2, 3}));
  EXPECT_THAT(messageOf([&] {
                bindColumns(openData(dir.path("short.bin"), 0), inputs);
              }),
              HasSubstr("has 3 tokens, a sequence of 3 and its labels need 4"));
  dir.write("odd.bin", "abc");
  EXPECT_THAT(messageOf([&] { openData(dir.path("odd.bin"), 0); }),
              HasSubstr("has 3 bytes, not a multiple of the 2 of a token"));
}

TEST(Data, WhatDoesNotFitIsShown) {
  TempDir dir;
  auto attempt = [&](const std::vector<DataInput> &inputs) {
    return messageOf([&] { bindColumns(openData(dir.path("."), 0), inputs); });
  };
  EXPECT_THAT(attempt(kInputs), HasSubstr("has no .npy files"));
  dir.write("x.npy", npy(KERF_F32, {4, 2}, kX));
  EXPECT_THAT(attempt(kInputs),
              AllOf(HasSubstr("no array for labels \"labels\" (i64 2)"),
                    HasSubstr("there are: \"x\" (f32 4x2)")));
  dir.write("labels.npy", npy(KERF_I32, {3}, std::vector<int32_t>{0, 1, 1}));
  EXPECT_THAT(attempt(kInputs),
              HasSubstr("array \"labels\" has 3 samples, \"x\" has 4"));
  EXPECT_THAT(attempt({{"x", KERF_F32, {2, 3}, false}}),
              HasSubstr("array \"x\" has shape 4x2, input \"x\" expects Nx3"));
  EXPECT_THAT(attempt({{"x", KERF_F16, {2, 2}, false}}),
              HasSubstr("array \"x\" is f32 4x2, input \"x\" expects f16"));
  EXPECT_THAT(messageOf([&] { openData(dir.path("none.npz"), 0); }),
              HasSubstr("none.npz"));
  EXPECT_THAT(messageOf([&] { openData(dir.path("x.npy"), 0); }),
              HasSubstr("expected a flat array of integer tokens"));
  for (const char *name : {"none.csv", "none/"})
    EXPECT_THAT(messageOf([&] { openData(dir.path(name), 0); }),
                HasSubstr(std::string(name) + ": cannot open: No such file"));
  dir.write("x.csv", {});
  EXPECT_THAT(messageOf([&] { openData(dir.path("x.csv"), 0); }),
              HasSubstr("is no data"));
}

// Exactly those conversions that keep every value.
TEST(Data, ExactConversions) {
  auto fits = [](kerf_dtype_t from, kerf_dtype_t to) {
    return exactConversion(from, to) != nullptr;
  };
  for (kerf_dtype_t type : {KERF_F32, KERF_F16, KERF_BF16, KERF_I8, KERF_BOOL})
    EXPECT_TRUE(fits(type, type));
  EXPECT_TRUE(fits(KERF_I32, KERF_I64));
  EXPECT_TRUE(fits(KERF_U32, KERF_I64));
  EXPECT_TRUE(fits(KERF_U8, KERF_F32));
  EXPECT_TRUE(fits(KERF_BF16, KERF_F32));
  EXPECT_TRUE(fits(KERF_I32, KERF_F64));
  EXPECT_TRUE(fits(KERF_BOOL, KERF_I64));
  EXPECT_FALSE(fits(KERF_I64, KERF_I32));
  EXPECT_FALSE(fits(KERF_U64, KERF_I64));
  EXPECT_FALSE(fits(KERF_I8, KERF_U64));
  EXPECT_FALSE(fits(KERF_I32, KERF_F32));
  EXPECT_FALSE(fits(KERF_F64, KERF_F32));
  EXPECT_FALSE(fits(KERF_F32, KERF_I64));
  EXPECT_FALSE(fits(KERF_F32, KERF_F16));
  uint16_t half[] = {0x3c00, 0xc000}, bfloat[] = {0x3fc0, 0xc040};
  float values[2];
  exactConversion(KERF_F16, KERF_F32)(reinterpret_cast<char *>(half),
                                      reinterpret_cast<char *>(values), 2);
  EXPECT_THAT(values, ElementsAre(1, -2));
  exactConversion(KERF_BF16, KERF_F32)(reinterpret_cast<char *>(bfloat),
                                       reinterpret_cast<char *>(values), 2);
  EXPECT_THAT(values, ElementsAre(1.5, -3));
  // Codes are of the type that takes them, without the bits above.
  for (kerf_dtype_t type : {KERF_F8E5M2, KERF_I4, KERF_U2})
    EXPECT_TRUE(fits(kAnyCode, type));
  EXPECT_TRUE(fits(KERF_I4, KERF_I4));
  EXPECT_FALSE(fits(KERF_U8, KERF_I4));
  EXPECT_FALSE(fits(KERF_I4, KERF_U4));
  EXPECT_FALSE(fits(KERF_I4, KERF_F32));
  EXPECT_FALSE(fits(kAnyCode, KERF_U8));
  uint8_t bytes[] = {0x9c, 0x07}, codes[2];
  exactConversion(kAnyCode, KERF_I4)(reinterpret_cast<char *>(bytes),
                                     reinterpret_cast<char *>(codes), 2);
  EXPECT_THAT(codes, ElementsAre(0x0c, 0x07));
}

// The order is part of what users see: a run that is repeated with a later
// version must read the same batches.
TEST(Shuffle, KnownOrder) { // by an independent implementation in Python
  EXPECT_THAT(shuffledOrder(8, 0, 0), ElementsAre(2, 5, 1, 6, 3, 7, 4, 0));
  EXPECT_THAT(shuffledOrder(8, 0, 1), ElementsAre(5, 3, 6, 0, 7, 2, 1, 4));
  EXPECT_THAT(shuffledOrder(8, 1, 0), ElementsAre(4, 7, 2, 3, 0, 1, 5, 6));
}

TEST(Shuffle, EveryOrderIsAPermutation) {
  for (int64_t count : {1, 2, 7, 1000}) {
    std::vector<int64_t> order = shuffledOrder(count, 3, 5);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < count; ++i)
      EXPECT_EQ(order[i], i);
  }
}

// Each of the 24 orders of 4 comes about equally often: chi squared with 23
// degrees of freedom is below 49.7 in 999 of 1000 cases.
TEST(Shuffle, IsEven) {
  std::map<std::vector<int64_t>, int> counts;
  constexpr int draws = 24000;
  for (int epoch = 0; epoch < draws; ++epoch)
    ++counts[shuffledOrder(4, 7, epoch)];
  EXPECT_EQ(counts.size(), 24u);
  double chi = 0;
  for (auto &[order, count] : counts)
    chi += (count - 1000.0) * (count - 1000.0) / 1000;
  EXPECT_LT(chi, 49.7);
}

Samples numbers(int64_t count, std::vector<int64_t> &storage) {
  storage.resize(count);
  std::iota(storage.begin(), storage.end(), 0);
  Samples samples;
  samples.count = count;
  for (bool isLabels : {false, true}) {
    Column column;
    column.name = isLabels ? "labels" : "x";
    column.dtype = KERF_I64;
    column.data = reinterpret_cast<const char *>(storage.data());
    column.strideBytes = 8;
    column.elements = 1;
    column.convert = exactConversion(KERF_I64, KERF_I64);
    column.isLabels = isLabels;
    samples.columns.push_back(column);
  }
  return samples;
}

std::vector<int64_t> values(const Batch &batch, size_t column) {
  std::vector<int64_t> result(batch.tensors[column].size() / 8);
  std::memcpy(result.data(), batch.tensors[column].data(),
              batch.tensors[column].size());
  return result;
}

// Epoch after epoch; what does not fill a batch is left out.
TEST(Batches, Dropped) {
  std::vector<int64_t> storage;
  BatchOptions options;
  options.batch = 3;
  options.seed = 2;
  BatchLoader loader(numbers(8, storage), options);
  EXPECT_EQ(loader.batchesPerEpoch(), 2);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> order = shuffledOrder(8, 2, epoch);
    for (int64_t index = 0; index < 2; ++index) {
      const Batch &batch = loader.next();
      EXPECT_EQ(batch.epoch, epoch);
      EXPECT_EQ(batch.index, index);
      EXPECT_EQ(values(batch, 0),
                std::vector<int64_t>(order.begin() + index * 3,
                                     order.begin() + index * 3 + 3));
    }
  }
}

// The rest of the last batch repeats its samples with labels that do not count.
TEST(Batches, Kept) {
  std::vector<int64_t> storage;
  BatchOptions options;
  options.batch = 3;
  options.shuffle = false;
  options.padLast = true;
  BatchLoader loader(numbers(4, storage), options);
  EXPECT_THAT(values(loader.next(), 0), ElementsAre(0, 1, 2));
  const Batch &last = loader.next();
  EXPECT_THAT(values(last, 0), ElementsAre(3, 3, 3));
  EXPECT_THAT(values(last, 1), ElementsAre(3, -100, -100));
  EXPECT_THAT(last.samples, ElementsAre(3));
}

// A run that starts in the middle of an epoch sees what follows.
TEST(Batches, StartAnywhere) {
  std::vector<int64_t> storage;
  BatchOptions options;
  options.batch = 2;
  options.seed = 9;
  // Written once: loaders read it in threads of their own.
  const Samples samples = numbers(7, storage);
  BatchLoader whole(samples, options);
  std::vector<std::vector<int64_t>> all;
  for (int i = 0; i < 9; ++i)
    all.push_back(values(whole.next(), 0));
  for (int from = 0; from < 6; ++from) {
    BatchLoader late(samples, options, {from / 3, from % 3});
    for (int i = from; i < 9; ++i)
      EXPECT_EQ(values(late.next(), 0), all[i]);
  }
}

TEST(Batches, LabelsOutOfRange) {
  std::vector<int64_t> storage;
  const Samples samples = numbers(7, storage);
  BatchOptions options;
  options.batch = 3;
  options.shuffle = false;
  options.classes = 5;
  BatchLoader loader(samples, options);
  EXPECT_EQ(loader.next().badSample, -1);
  const Batch &batch = loader.next();
  EXPECT_EQ(batch.badSample, 5);
  EXPECT_EQ(batch.badLabel, 5);
  // Without an ignored label -100 is one out of range as well.
  options.ignoreIndex = 1;
  BatchLoader ignored(samples, options);
  EXPECT_EQ(ignored.next().badSample, -1);
  options.ignores = false;
  options.classes = 1;
  BatchLoader strict(samples, options);
  EXPECT_EQ(strict.next().badSample, 1);
}

TEST(Batches, FewerSamplesThanABatch) {
  std::vector<int64_t> storage;
  BatchOptions options;
  options.batch = 9;
  EXPECT_THAT(
      messageOf([&] { BatchLoader loader(numbers(7, storage), options); }),
      HasSubstr("has 7 samples, a batch needs 9"));
}
} // namespace
