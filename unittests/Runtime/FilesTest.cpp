//===- FilesTest.cpp - .npy, safetensors, atomic files, host features -----===//
#include "kerf/rt/files.h"
#include "TestPackage.h"
#include "base/HostFeatures.h"
#include "kerf/Format/Schemas.h"
#include "kerf/rt/printable.h"
#include "package/Safetensors.h"
#include "train/Checkpoints.h"

#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf::rt;
using namespace kerf::rt::test;
using testing::HasSubstr;

namespace {

TEST(Npy, RoundTripsEveryType) {
  TempDir dir;
  for (int t = KERF_F32; t <= KERF_U2; ++t) {
    auto dtype = static_cast<kerf_dtype_t>(t);
    std::string data(6 * kerf_dtype_size(dtype), 'x'), file;
    ASSERT_TRUE(formatNpy(dtype, {2, 3}, data.data(), data.size(), file));
    EXPECT_EQ((file.size() - data.size()) % 64, 0u);
    dir.write("a.npy", file);
    HostTensor tensor;
    std::string error;
    ASSERT_TRUE(readNpy(dir.path("a.npy"), tensor, error)) << error;
    // NumPy's files do not say of which type codes are.
    EXPECT_EQ(tensor.dtype, codeBits(dtype) ? kAnyCode : dtype);
    EXPECT_EQ(tensor.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(std::string(tensor.data.begin(), tensor.data.end()), data);
  }
}

TEST(Npy, ScalarsAndFortranOrder) {
  TempDir dir;
  std::string file, error;
  float value = 3;
  formatNpy(KERF_F32, {}, &value, 4, file);
  dir.write("s.npy", file);
  HostTensor tensor;
  ASSERT_TRUE(readNpy(dir.path("s.npy"), tensor, error)) << error;
  EXPECT_TRUE(tensor.shape.empty());
  int8_t columns[] = {1, 4, 2, 5, 3, 6}; // of [[1, 2, 3], [4, 5, 6]]
  formatNpy(KERF_I8, {2, 3}, columns, 6, file);
  file.replace(file.find("False"), 5, "True ");
  dir.write("f.npy", file);
  ASSERT_TRUE(readNpy(dir.path("f.npy"), tensor, error)) << error;
  EXPECT_EQ(tensor.data, (std::vector<char>{1, 2, 3, 4, 5, 6}));
}

// Every truncation and every changed header byte: an error or a tensor, no
// crash.
TEST(Npy, DamagedFiles) {
  TempDir dir;
  std::string file, error;
  float data[6] = {};
  formatNpy(KERF_F32, {2, 3}, data, sizeof(data), file);
  HostTensor tensor;
  for (size_t n = 0; n < file.size(); ++n) {
    dir.write("t.npy", file.substr(0, n));
    EXPECT_FALSE(readNpy(dir.path("t.npy"), tensor, error));
    EXPECT_THAT(error, HasSubstr("t.npy: "));
  }
  for (size_t i = 0; i < 80; ++i)
    for (char c : {'\0', '9', '\'', '\xff'}) {
      std::string changed = file;
      changed[i] = c;
      dir.write("t.npy", changed);
      readNpy(dir.path("t.npy"), tensor, error);
    }
  EXPECT_FALSE(readNpy(dir.path("missing.npy"), tensor, error));
  EXPECT_FALSE(readNpy(dir.path(""), tensor, error));
}

TEST(FileSet, AllOrNothing) {
  TempDir dir;
  std::string error;
  {
    FileSet files;
    ASSERT_TRUE(files.add(dir.path("a"), "one", error));
    EXPECT_FALSE(files.add(dir.path("no/b"), "two", error));
    EXPECT_THAT(error, HasSubstr("no/b: cannot write"));
  }
  EXPECT_TRUE(dir.list().empty()); // nothing, nor a temporary
  FileSet files;
  ASSERT_TRUE(files.add(dir.path("a"), "one", error) &&
              files.add(dir.path("b"), "two", error));
  ASSERT_TRUE(files.commit(error));
  EXPECT_EQ(dir.list(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(dir.read("b"), "two");
}

// Values depend on seed, name and index alone, and stay in their range.
TEST(Random, IsReproducibleAndInRange) {
  std::vector<float> a(1000), b(1000);
  fillRandom("x", 1, KERF_F32, 1000, 0, 0, a.data());
  fillRandom("x", 1, KERF_F32, 1000, 0, 0, b.data());
  EXPECT_EQ(a, b);
  fillRandom("y", 1, KERF_F32, 1000, 0, 0, b.data());
  EXPECT_NE(a, b);
  double sum = 0;
  for (float value : a) {
    EXPECT_TRUE(value >= -1 && value < 1);
    sum += value;
  }
  EXPECT_LT(std::abs(sum / 1000), 0.1);
  std::vector<int64_t> ids(1000);
  fillRandom("ids", 1, KERF_I64, 1000, -3, 5, ids.data());
  for (int64_t id : ids)
    EXPECT_TRUE(id >= -3 && id < 5);
}

std::string safetensorsOf(const std::string &header, size_t dataBytes) {
  uint64_t length = header.size();
  std::string file(reinterpret_cast<const char *>(&length), 8);
  return file + header + std::string(dataBytes, 'd');
}

std::string loadError(const std::string &content) {
  TempDir dir;
  dir.write("w", content);
  try {
    Safetensors(std::make_shared<MappedFile>(dir.path("w")), "w");
    return "";
  } catch (const Error &error) {
    return error.message;
  }
}

// What a checkpoint says of itself must be possible: a batch past the epoch's
// end, or an epoch that overflows, would be taken up.
TEST(Checkpoints, StandAtAPlaceOfARun) {
  TempDir dir;
  auto error = [&](const char *step, const char *epoch, const char *index,
                   Metadata facts = {}) {
    facts.insert({{"format", "kerf.checkpoint/1"},
                  {"step", step},
                  {"updates", "0"},
                  {"epoch", epoch},
                  {"index", index},
                  {"batches_per_epoch", "10"}});
    writeTensorFile(
        dir.path("c"), {}, [](size_t, std::vector<char> &) {}, facts,
        /*hashed=*/true);
    try {
      RunState state;
      openCheckpoint(dir.path("c"), state);
      return std::string();
    } catch (const Error &error) {
      return error.message;
    }
  };
  EXPECT_EQ(error("12", "1", "2"), "");
  EXPECT_THAT(error("12", "1", "2", {{"colour", "red"}}),
              HasSubstr("unknown \"colour\""));
  EXPECT_THAT(error("12", "1", "12"), HasSubstr("no place of a run"));
  EXPECT_THAT(error("12", "9223372036854775807", "2"),
              HasSubstr("no place of a run"));
  EXPECT_THAT(error("13", "1", "2"), HasSubstr("batch 2 of 10 in epoch 1"));
}

// Another version is told from another format, a newer from an older one;
// numbers may be longer than any integer.
TEST(Schemas, NameBothVersions) {
  constexpr kerf::Schema schema{"kerf.sample", 9, "make it again"};
  auto mismatch = [&](const char *found) {
    return kerf::schemaMismatch(schema, found);
  };
  EXPECT_EQ(mismatch("kerf.sample/9"), "");
  EXPECT_EQ(mismatch("kerf.sample/10"),
            "is \"kerf.sample/10\", newer than \"kerf.sample/9\", which this "
            "Kerf reads: make it again, or use the Kerf that wrote it");
  EXPECT_THAT(mismatch("kerf.sample/8"), HasSubstr("older than"));
  EXPECT_THAT(mismatch("kerf.sample/0"), HasSubstr("older than"));
  EXPECT_THAT(mismatch("kerf.sample/99999999999999999999"),
              HasSubstr("newer than"));
  EXPECT_EQ(mismatch(""), "is missing, expected \"kerf.sample/9\"");
  for (const char *other :
       {"kerf.sample", "kerf.sample/", "kerf.sample/09", "kerf.sample/9 ",
        "kerf.sampler/9", "kerf.sample9", "kerf.sample/-1"})
    EXPECT_EQ(mismatch(other),
              "is \"" + std::string(other) + "\", expected \"kerf.sample/9\"");
}

TEST(Schemas, OlderVersionsThatAreRead) {
  constexpr kerf::Schema schema{"kerf.sample", 11, "make it again", 9};
  auto mismatch = [&](const char *found) {
    return kerf::schemaMismatch(schema, found);
  };
  for (const char *read : {"kerf.sample/9", "kerf.sample/10", "kerf.sample/11"})
    EXPECT_EQ(mismatch(read), "");
  EXPECT_THAT(mismatch("kerf.sample/8"), HasSubstr("older than"));
  EXPECT_THAT(mismatch("kerf.sample/12"), HasSubstr("newer than"));
}

TEST(Safetensors, ReadsAndRefuses) {
  std::string good =
      R"({"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(loadError(safetensorsOf(good, 8)), "");
  EXPECT_THAT(loadError("abc"), HasSubstr("shorter"));
  EXPECT_THAT(loadError(std::string(8, '\xff')), HasSubstr("header of"));
  EXPECT_THAT(loadError(safetensorsOf(good, 7)),
              HasSubstr("w: x.data_offsets: is not a range"));
  // A name with a zero is a name of its own, not that of what stands before it.
  EXPECT_THAT(
      loadError(safetensorsOf(
          R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"x\u0000y":{"dtype":"F32","shape":[9],"data_offsets":[0,8]}})",
          8)),
      HasSubstr("range of 36 bytes"));
  EXPECT_THAT(loadError(safetensorsOf("[]", 0)),
              HasSubstr("expected an object"));
  EXPECT_THAT(
      loadError(safetensorsOf(
          R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8)),
      HasSubstr("range of 12 bytes"));
  EXPECT_THAT(
      loadError(safetensorsOf(
          R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})",
          8)),
      HasSubstr("overflows"));
  EXPECT_THAT(
      loadError(safetensorsOf(
          R"({"x":{"dtype":"F32","shape":[-1],"data_offsets":[8,4]}})", 8)),
      HasSubstr("shape[0]: expected an integer"));
}

// Two names of one file collide, whatever they look like; two files do not.
TEST(UsedFiles, ComparesFilesNotNames) {
  TempDir dir;
  dir.write("a", "model");
  ASSERT_EQ(::symlink("a", dir.path("soft").c_str()), 0);
  ASSERT_EQ(::link(dir.path("a").c_str(), dir.path("hard").c_str()), 0);
  ASSERT_EQ(::symlink("new", dir.path("dangling").c_str()), 0);
  auto check = [&](const std::string &input, const std::string &output) {
    UsedFiles files;
    files.reads("the model", dir.path(input));
    files.writes("-o", dir.path(output));
    return files.check();
  };
  EXPECT_EQ(check("a", "b"), "");
  for (const char *other : {"a", "./a", "soft", "hard"})
    EXPECT_THAT(check("a", other),
                HasSubstr(": is given by -o and by the model"))
        << other;
  EXPECT_THAT(check("soft", "hard"), HasSubstr("is given by"));
  EXPECT_THAT(check("new", "dangling"), HasSubstr("is given by"));
  EXPECT_THAT(check("a", "no/b"),
              HasSubstr("no/b: cannot write: the folder \""));
  // Trying leaves nothing behind.
  EXPECT_NE(::access(dir.path("b").c_str(), F_OK), 0);
}

TEST(UsedFiles, FoldersAndPackages) {
  TempDir dir;
  ASSERT_EQ(::mkdir(dir.path("p").c_str(), 0777), 0);
  dir.write("p/manifest.json", "{}");
  dir.write("p/plan.json", "{}");
  UsedFiles replaced;
  replaced.reads("--plan", dir.path("p/plan.json"));
  replaced.replaces("-o", dir.path("p/"));
  EXPECT_THAT(replaced.check(), HasSubstr("is given by -o and by --plan"));
  UsedFiles read;
  read.reads("the package", dir.path("p"));
  read.writes("--stats", dir.path("p/manifest.json"));
  EXPECT_THAT(read.check(),
              HasSubstr("is given by --stats and by the package"));
  UsedFiles filled;
  filled.fills("--output-dir", dir.path("new"), {"y.npy"});
  EXPECT_EQ(filled.check(), "");
  filled.writes("--stats", dir.path("new/./y.npy"));
  EXPECT_THAT(filled.check(), HasSubstr("by --stats and by --output-dir"));
  UsedFiles kept;
  kept.keeps("--checkpoint-dir", dir.path("p"), "check-", ".st");
  kept.writes("--log", dir.path("p/check-1.log"));
  EXPECT_EQ(kept.check(), "");
  kept.reads("--data", dir.path("p/check-1.st"));
  EXPECT_THAT(kept.check(),
              HasSubstr("is given by --checkpoint-dir and by --data"));
}

TEST(Printable, EscapesWhatATerminalObeysAndWhatIsNoUtf8) {
  EXPECT_EQ(printable("größe 层 🙂"), "größe 层 🙂");
  EXPECT_EQ(printable("a\x1b[2J\n\x7f"), "a\\x1b[2J\\x0a\\x7f");
  EXPECT_EQ(printable("a\n\tb", /*lines=*/true), "a\n\tb");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");          // CSI in 8 bits
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae"); // right to left
  for (const char *bad : {"\xff", "\x80", "\xc0\xaf", "\xe0\x80\xaf",
                          "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"})
    EXPECT_EQ(printable(bad).size(), 4 * std::strlen(bad)) << bad;
  // A character that comes in two pieces.
  EXPECT_EQ(unfinishedBytes("a\xe2\x82"), 2u);
  EXPECT_EQ(unfinishedBytes("a\xe2\x82\xac"), 0u);
  EXPECT_EQ(unfinishedBytes("a\xff"), 0u);
}

TEST(HostFeatures, NamesOfLlvmAndLinux) {
  std::string flags =
      "fpu pni sse4_1 avx512_bf16 avx512f amx_tile abm bmi1 sha_ni";
  EXPECT_TRUE(
      missingFeatures({"x87", "sse3", "sse4.1", "avx512bf16", "amx-tile",
                       "lzcnt", "bmi", "sha", "prefer-256-bit", "fast-gather"},
                      flags)
          .empty());
  EXPECT_EQ(missingFeatures({"avx512f", "avx512vl", "fma"}, flags),
            (std::vector<std::string>{"avx512vl", "fma"}));
  // What the kernel has switched off, and no compiler uses by itself.
  EXPECT_TRUE(missingFeatures({"avx512f", "rdseed", "xsaves"}, flags).empty());
}
} // namespace
