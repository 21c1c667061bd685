//===- CoverageTest.cpp - docs/UpstreamOps.md says which ops have a rule --===//
//
// The page lists, for each dialect, ops with a sharding rule and ops without.
// The test asks the context and compares: an op that gains or loses a rule, or
// that MLIR brings, is missing there.
//
//===----------------------------------------------------------------------===//
#include "OnRanks.h"

#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

#include <map>
#include <set>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

struct Listed {
  std::set<std::string> with, without;
};

/// Ops in backticks of the page's table, whose rows are
/// `| dialect | with a rule | without |`.
std::map<std::string, Listed> readPage() {
  std::map<std::string, Listed> page;
  auto file = llvm::MemoryBuffer::getFile(KERF_DOCS "/UpstreamOps.md");
  if (!file)
    return page;
  SmallVector<StringRef> lines;
  (*file)->getBuffer().split(lines, '\n');
  for (StringRef line : lines) {
    SmallVector<StringRef> cells;
    line.split(cells, '|');
    if (cells.size() != 5)
      continue;
    auto names = [](StringRef cell) {
      SmallVector<StringRef> parts;
      std::set<std::string> found;
      cell.split(parts, '`');
      for (size_t i = 1; i < parts.size(); i += 2)
        found.insert(parts[i].str());
      return found;
    };
    std::set<std::string> dialect = names(cells[1]);
    if (dialect.size() == 1)
      page[*dialect.begin()] = {names(cells[2]), names(cells[3])};
  }
  return page;
}

std::string textOfSet(const std::set<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "`" : ", `") + name + "`";
  return text;
}

TEST(Coverage, PageListsOpsWithAndWithoutRule) {
  UpstreamContext loaded;
  auto page = readPage();
  for (const char *dialect : {"arith", "linalg", "math", "tensor", "tosa"}) {
    Listed found;
    for (RegisteredOperationName name :
         loaded.context.getRegisteredOperations()) {
      if (name.getDialectNamespace() != dialect)
        continue;
      std::string op = name.stripDialect().str();
      (name.hasInterface<ShardingRuleInterface>() ? found.with : found.without)
          .insert(op);
    }
    EXPECT_EQ(textOfSet(page[dialect].with), textOfSet(found.with)) << dialect;
    EXPECT_EQ(textOfSet(page[dialect].without), textOfSet(found.without))
        << dialect;
  }
}

} // namespace
