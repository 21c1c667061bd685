//===- WrapLinesTest.cpp - lines that fit, and the same text
//---------------===//
#include "kerf/Support/WrapLines.h"

#include "gtest/gtest.h"

#include <random>
#include <string>

using namespace kerf;

namespace {

std::string wrap(llvm::StringRef text, size_t columns) {
  std::string out;
  llvm::raw_string_ostream stream(out);
  writeWrapped(stream, text, columns);
  return out;
}

TEST(WrapLinesTest, LeavesWhatFits) {
  EXPECT_EQ(wrap("", 20), "");
  EXPECT_EQ(wrap("a b\n\n  c\n", 20), "a b\n\n  c\n");
}

TEST(WrapLinesTest, BreaksBeforeTheTypes) {
  EXPECT_EQ(wrap("  %0 = nn.add %1, %2 {a = #b<c, d>} : (tensor<4xf32>, "
                 "tensor<f32>)\n",
                 50),
            "  %0 = nn.add %1, %2 {a = #b<c, d>}\n"
            "      : (tensor<4xf32>, tensor<f32>)\n");
}

TEST(WrapLinesTest, AnArrowClosesNothing) {
  EXPECT_EQ(wrap("f(a -> b, c) {d, e} (x, y)", 20),
            "f(a -> b, c)\n    {d, e} (x, y)");
}

TEST(WrapLinesTest, NeverInAString) {
  EXPECT_EQ(wrap("one \"a, \\\" b c, d e f g h\" two", 10),
            "one\n    \"a, \\\" b c, d e f g h\"\n    two");
}

TEST(WrapLinesTest, NeverInAComment) {
  EXPECT_EQ(wrap("^bb0(%a):  // and a, long, comment", 12),
            "^bb0(%a): \n    // and a, long, comment");
}

// But for where spaces are, text and wrapped text are the same; lines fit where
// words are shorter than what a line holds.
TEST(WrapLinesTest, RandomText) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (size_t i = 0, n = random() % 300; i < n; ++i)
      text += "ab,:{}()<>-> \n\"\\    "[random() % 20];
    std::string wrapped = wrap(text, 24);
    auto words = [](llvm::StringRef all) {
      std::string out;
      for (char c : all)
        if (c != ' ' && c != '\n')
          out += c;
      return out;
    };
    EXPECT_EQ(words(wrapped), words(text));
  }
  std::string list = "f(";
  for (int i = 0; i < 200; ++i)
    list += "%arg" + std::to_string(i) + ", ";
  llvm::StringRef rest = list;
  std::string wrapped = wrap(rest, 60);
  for (rest = wrapped; !rest.empty();) {
    auto [line, more] = rest.split('\n');
    EXPECT_LE(line.size(), 60u);
    rest = more;
  }
}

} // namespace
