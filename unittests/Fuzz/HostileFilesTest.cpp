//===- HostileFilesTest.cpp - damaged files of every kind -----------------===//
//
// Each entry of fuzz/ reads its corpus and fixed mutations of it: none may end
// the process, break a promise, take 5 s or a large block of memory. What
// libFuzzer has found stands in the corpus, too. KERF_FUZZ=N reads N times as
// many mutations; KERF_SEED begins elsewhere; KERF_FUZZ_CORPUS=DIR adds the
// files of DIR/ENTRY.
//
//===----------------------------------------------------------------------===//
#include "Entries.h"
#include "Mutations.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sys/resource.h>

using namespace kerf::fuzz;
namespace fs = std::filesystem;

namespace {

using Bytes = std::vector<uint8_t>;

size_t fromEnvironment(const char *name, size_t otherwise) {
  const char *given = std::getenv(name);
  return given ? std::strtoull(given, nullptr, 10) : otherwise;
}

/// The corpus of an entry, in the order of names.
std::vector<Bytes> readCorpus(const std::string &name) {
  std::vector<fs::path> paths;
  const char *more = std::getenv("KERF_FUZZ_CORPUS");
  for (std::string folder : {KERF_FUZZ_CORPUS, more ? more : ""})
    if (fs::is_directory(folder + "/" + name))
      for (const auto &file : fs::directory_iterator(folder + "/" + name))
        paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> corpus;
  for (const fs::path &path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file),
                        std::istreambuf_iterator<char>());
  }
  return corpus;
}

void keep(const Bytes &input, const std::string &path) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(input.data()),
             static_cast<std::streamsize>(input.size()));
}

class HostileFiles : public ::testing::TestWithParam<Entry> {};

TEST_P(HostileFiles, AreReadOrRefused) {
  const Entry &entry = GetParam();
  std::vector<Bytes> corpus = readCorpus(entry.name);
  ASSERT_FALSE(corpus.empty());
  // The file stays when an input ends the process.
  InputFile last(std::string(".") + entry.name);
  size_t mutations = 2000 * fromEnvironment("KERF_FUZZ", 1);
  Random random(fromEnvironment("KERF_SEED", 1));
  int broken = 0;
  for (size_t i = 0; i < corpus.size() + mutations && broken < 5; ++i) {
    Bytes input = corpus[i < corpus.size() ? i : random.below(corpus.size())];
    if (i >= corpus.size())
      mutate(input, entry.format, random);
    const std::string &path = last.write(input.data(), input.size());
    auto begin = std::chrono::steady_clock::now();
    std::string promise = entry.run(input.data(), input.size());
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begin;
    if (took.count() > 5)
      promise += " took " + std::to_string(took.count()) + " s";
    if (promise.empty())
      continue;
    std::string kept = path + "-" + std::to_string(++broken);
    keep(input, kept);
    ADD_FAILURE() << entry.name << ": " << promise << "\ninput " << i
                  << " is kept in " << kept;
  }
}

/// A million brackets are refused, not followed: a parser that calls itself
/// would run out of stack.
TEST_P(HostileFiles, AreNotFollowedDown) {
  const Entry &entry = GetParam();
  for (const char *open : {"[", "{\"a\":"}) {
    std::string text;
    for (int i = 0; i < 1000000; ++i)
      text += open;
    if (entry.format == Format::JsonHeader) {
      uint64_t length = text.size();
      text.insert(0, reinterpret_cast<const char *>(&length), 8);
    }
    auto *bytes = reinterpret_cast<const uint8_t *>(text.data());
    EXPECT_EQ(entry.run(bytes, text.size()), "");
  }
}

std::vector<Entry> allEntries() {
  std::vector<Entry> entries = runtimeEntries();
#ifdef KERF_TEST_COMPILER
  entries.insert(entries.end(), compilerEntries().begin(),
                 compilerEntries().end());
#endif
  return entries;
}

INSTANTIATE_TEST_SUITE_P(Fuzz, HostileFiles, ::testing::ValuesIn(allEntries()),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

/// Blocks that no file of a few kilobytes justifies cannot be had. Sanitizers
/// reserve terabytes themselves.
class LimitMemory : public ::testing::Environment {
  void SetUp() override {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&         \
    !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
    rlimit limit{rlim_t(3) << 30, rlim_t(3) << 30};
    ::setrlimit(RLIMIT_AS, &limit);
#endif
  }
};
const auto *const memory = ::testing::AddGlobalTestEnvironment(new LimitMemory);

} // namespace
