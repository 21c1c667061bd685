//===- HostFeatures.cpp - does this CPU run that program? -----------------===//
//
// LLVM and Linux name the same instruction sets differently. Most names differ
// only in punctuation; the rest are in a table, which lists the instruction
// sets that a compiler may use in generated code. Other features are not
// checked: LLVM reads the processor's own word, where Linux also leaves out
// what the kernel has switched off (RDSEED on some Zen 5, XSAVES in virtual
// machines).
//
//===----------------------------------------------------------------------===//
#include "HostFeatures.h"

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

using namespace kerf::rt;

namespace {
struct Alias {
  const char *llvm, *linux;
};
// LLVM name -> flag in /proc/cpuinfo, both without punctuation.
constexpr Alias aliases[] = {
    {"sse3", "pni"},    {"pclmul", "pclmulqdq"},
    {"lzcnt", "abm"},   {"prfchw", "3dnowprefetch"},
    {"sahf", "lahflm"}, {"crc32", "sse42"},
    {"64bit", "lm"},    {"x87", "fpu"},
};
constexpr const char *sameNames =
    "mmx sse sse2 ssse3 sse41 sse42 sse4a avx avx2 fma fma4 f16c bmi1 "
    "bmi2 popcnt movbe adx cx8 cx16 cmov fxsr avx512f avx512cd "
    "avx512bw avx512dq avx512vl avx512ifma avx512vbmi avx512vbmi2 "
    "avx512vnni avx512bitalg avx512vpopcntdq avx512bf16 avx512fp16 "
    "avx512vp2intersect avxvnni avxifma avxvnniint8 avxneconvert gfni "
    "vpclmulqdq xop tbm";

std::string plain(const std::string &name) {
  std::string result;
  for (char c : name)
    if (c != '-' && c != '_' && c != '.' && c != '+')
      result += c;
  return result;
}
} // namespace

std::vector<std::string>
kerf::rt::missingFeatures(const std::vector<std::string> &features,
                          const std::string &cpuFlags) {
  std::set<std::string> flags;
  std::istringstream in(cpuFlags);
  for (std::string flag; in >> flag;)
    flags.insert(plain(flag));
  std::istringstream names(sameNames);
  std::set<std::string> same{std::istream_iterator<std::string>(names), {}};
  std::vector<std::string> missing;
  for (const std::string &feature : features) {
    std::string name = plain(feature);
    if (name == "bmi")
      name = "bmi1";
    std::string flag;
    for (const Alias &alias : aliases)
      if (name == alias.llvm)
        flag = alias.linux;
    if (same.count(name))
      flag = name;
    if (!flag.empty() && !flags.count(flag))
      missing.push_back(feature);
  }
  return missing;
}

std::vector<std::string>
kerf::rt::missingHostFeatures(const std::vector<std::string> &features) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("flags", 0) == 0)
      return missingFeatures(features, line.substr(line.find(':') + 1));
  return {}; // unknown: a missing instruction ends the program
}
