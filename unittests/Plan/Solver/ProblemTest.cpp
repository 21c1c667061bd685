//===- ProblemTest.cpp - checks, exact evaluation, contest files ----------===//
#include "RandomProblems.h"
#include "kerf/Plan/IOPDDL.h"

#include <gtest/gtest.h>

using namespace kerf::plan;

namespace {

std::string messageOf(llvm::Error error) {
  return error ? llvm::toString(std::move(error)) : "";
}
template <typename T> std::string messageOf(llvm::Expected<T> value) {
  return value ? "" : llvm::toString(value.takeError());
}

constexpr const char *kExample = R"({"problem": {"name": "example",
  "nodes": {"intervals": [[30,70],[40,70],[50,120],[110,140],[110,150]],
    "costs": [[15],[55,65],[25,45,35],[85,75],[95]],
    "usages": [[10],[25,25],[15,20,15],[10,10],[15]]},
  "edges": {"nodes": [[0,1],[0,2],[1,3],[2,4],[3,4]],
    "costs": [[30,40],[50,10,40],[90,10,20,80],[60,20,30],[70,60]]},
  "usage_limit": 50}})";

// The contest's example and its stated answers.
TEST(IOPDDL, Example) {
  Problem problem = llvm::cantFail(parseIOPDDL(kExample));
  EXPECT_EQ(evaluate(problem, {0, 1, 2, 0, 0}).cost[0], 495);
  EXPECT_EQ(evaluate(problem, {0, 0, 2, 0, 0}).cost[0], 545);
  EXPECT_EQ(evaluate(problem, {0, 0, 2, 1, 0}).cost[0], 445);
  EXPECT_EQ(evaluate(problem, {0, 0, 1, 1, 0}).cost[0], 415);
  EXPECT_EQ(messageOf(verify(problem, {0, 0, 1, 1, 0})),
            "resource \"memory\": peak is 55 at time 50, over the limit 50");
  SolveResult result = solve(problem);
  EXPECT_EQ(result.status, Status::Optimal);
  EXPECT_EQ(result.solution, Solution({0, 0, 2, 1, 0}));
  problem.resources[0].limit.reset();
  EXPECT_EQ(solve(problem).cost(), 415);
}

// Writing and reading again is the same problem.
TEST(IOPDDL, RoundTrip) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Problem problem = randomProblem(seed, {});
    problem.addResource("memory", 17);
    for (uint32_t n = 0; n < problem.nodes.size(); ++n)
      problem.addUsage(0, n, {int64_t(n), int64_t(n) + 3},
                       std::vector<int64_t>(problem.numChoices(n), 5 + n));
    std::string text = llvm::cantFail(writeIOPDDL(problem));
    Problem again = llvm::cantFail(parseIOPDDL(text));
    EXPECT_EQ(llvm::cantFail(writeIOPDDL(again)), text);
    EXPECT_EQ(solve(again).evaluation.cost, solve(problem).evaluation.cost);
  }
}

TEST(IOPDDL, WhatTheFormatCannotSay) {
  Problem problem;
  problem.addNode(CostTable({1, 2}));
  problem.nodes[0].costs.set(1, {2, 3, 0});
  EXPECT_EQ(messageOf(writeIOPDDL(problem)),
            "costs have several levels, the format has one");
  problem.nodes[0].costs = CostTable({1, 2});
  problem.addResource("a", 1);
  problem.addUsage(0, 0, {0, 1}, {1, 1});
  problem.addUsage(0, 0, {0, 1}, {1, 1});
  EXPECT_EQ(messageOf(writeIOPDDL(problem)),
            "node 0 has several usages, the format has one");
  problem.addResource("b", 1);
  EXPECT_EQ(messageOf(writeIOPDDL(problem)),
            "problem has 2 resources, the format has one");
}

// Every error names its byte or its node, and nothing crashes.
TEST(IOPDDL, Errors) {
  EXPECT_EQ(messageOf(parseIOPDDL("")), "byte 0: expected '{'");
  EXPECT_EQ(messageOf(parseIOPDDL("{}")), "missing member \"problem\"");
  EXPECT_EQ(messageOf(parseIOPDDL("{} x")),
            "byte 3: expected the end of the file");
  EXPECT_EQ(messageOf(parseIOPDDL(R"({"problem": {"usage_limit": 1.5}})")),
            "byte 28: expected an integer");
  EXPECT_EQ(messageOf(parseIOPDDL(
                R"({"problem": {"usage_limit": 99999999999999999999}})")),
            "byte 28: integer out of range");
  EXPECT_EQ(
      messageOf(parseIOPDDL(
          R"({"problem": {"nodes": {"costs": [[1]], "usages": [[1]]}}})")),
      "nodes have 0 intervals, 1 costs and 1 usages, expected equal "
      "numbers");
  std::string text = kExample;
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_NE(messageOf(parseIOPDDL(llvm::StringRef(text).take_front(size))),
              "");
  auto replaced = [&](llvm::StringRef from, llvm::StringRef to) {
    std::string copy = text;
    return messageOf(
        parseIOPDDL(copy.replace(copy.find(from.str()), from.size(), to)));
  };
  EXPECT_EQ(replaced("[3,4]]", "[3,7]]"), "edge 4 has node 7, expected 0 to 4");
  EXPECT_EQ(replaced("[3,4]]", "[3,3]]"), "edge 4 has node 3 twice");
  EXPECT_EQ(replaced("[70,60]", "[70]"), "edge 4 has 1 costs, expected 2");
  EXPECT_EQ(replaced("[30,70]", "[30]"),
            "interval of node 0 has 1 entries, expected 2");
  EXPECT_EQ(replaced("[10],[25", "[-10],[25"),
            "resource \"memory\", node 0: usage is -10, expected 0 to "
            "999999999999999999");
  EXPECT_EQ(replaced("[[15],", "[[],"), "node 0 has no choices");
}

TEST(IOPDDL, Solutions) {
  EXPECT_EQ(writeSolution({0, 2, 1}), "[0, 2, 1]");
  EXPECT_EQ(llvm::cantFail(parseSolution(" [0,2, 1]\n")), Solution({0, 2, 1}));
  EXPECT_EQ(messageOf(parseSolution("[0, -1]")),
            "entry 1 is -1, expected a choice");
  EXPECT_NE(messageOf(parseSolution("[0] [1]")), "");
}

// Sums of the largest entries are exact.
TEST(Problem, SumsPass64Bits) {
  Problem problem;
  for (int n = 0; n < 100; ++n)
    problem.addNode(CostTable({kMaxEntry}));
  Sum expected = Sum(kMaxEntry) * 100;
  EXPECT_EQ(evaluate(problem, Solution(100, 0)).cost[0], expected);
  SolveResult result = solve(problem);
  EXPECT_EQ(result.cost(), expected);
  EXPECT_EQ(toString(result.cost()), "99999999999999999900");
}

TEST(Problem, VerifyNamesWhatIsWrong) {
  Problem problem;
  uint32_t a = problem.addNode(CostTable({1, kForbidden}), "a");
  uint32_t b = problem.addNode(CostTable({1, 2}), "b");
  problem.addEdge({b, a}, CostTable({0, 0, kForbidden, 0}));
  EXPECT_EQ(messageOf(problem.check()), "");
  EXPECT_EQ(messageOf(verify(problem, {0})),
            "solution has 1 entries, expected 2");
  EXPECT_EQ(messageOf(verify(problem, {2, 0})),
            "node 0 (a) takes choice 2, expected below 2");
  EXPECT_EQ(messageOf(verify(problem, {1, 0})),
            "node 0 (a) takes choice 1, which is not allowed");
  EXPECT_EQ(messageOf(verify(problem, {0, 1})),
            "edge 0 does not allow node 1 (b) = 1, node 0 (a) = 0");
  EXPECT_EQ(messageOf(verify(problem, {0, 0})), "");
}

TEST(Problem, CheckNamesWhatIsWrong) {
  auto errorOf = [](llvm::function_ref<void(Problem &)> damage) {
    Problem problem;
    problem.addNode(CostTable({1, 2}), "a");
    problem.addNode(CostTable({1, 2}));
    problem.addEdge({0, 1}, CostTable({1, 2, 3, 4}));
    problem.addResource("memory", 10);
    problem.addUsage(0, 0, {0, 1}, {1, 2});
    damage(problem);
    return messageOf(problem.check());
  };
  EXPECT_EQ(errorOf([](Problem &) {}), "");
  EXPECT_EQ(errorOf([](Problem &p) { p.edges[0].table = 4; }),
            "edge 0 has table 4, expected below 1");
  EXPECT_EQ(errorOf([](Problem &p) { p.edges[0].nodes = {0}; }),
            "edge 0 has 1 nodes, expected at least 2");
  EXPECT_EQ(errorOf([](Problem &p) { p.tables[0].levels[1] = {1}; }),
            "table 0: level 1 has 1 entries, expected 4");
  EXPECT_EQ(
      errorOf([](Problem &p) { p.nodes[0].costs.levels[0][0] = INT64_MIN; }),
      "node 0 (a): entry 0 of level 0 is -9223372036854775808, expected "
      "within +-999999999999999999");
  EXPECT_EQ(errorOf([](Problem &p) { p.resources[0].limit = -1; }),
            "resource \"memory\": limit is -1, expected 0 to "
            "999999999999999999");
  EXPECT_EQ(errorOf([](Problem &p) { p.addUsage(0, 9, {0, 1}, {1}); }),
            "resource \"memory\": usage of node 9, expected below 2");
}

// Adding never makes an allowed entry forbidden, nor a forbidden one allowed.
TEST(Problem, TablesAdd) {
  CostTable table = CostTable::zeros(3);
  table.add(0, {5, 0, 7});
  table.add(0, {5, 1, 0});
  EXPECT_EQ(table.at(0, 0), 10);
  EXPECT_EQ(table.at(1, 0), 1);
  EXPECT_EQ(table.at(2, 0), 7);
  table.forbid(1);
  table.add(1, {-5, 0, 0});
  EXPECT_TRUE(table.isForbidden(1));
  table.add(2, {kMaxEntry, 0, 0});
  table.add(2, {kMaxEntry, 0, 0});
  EXPECT_FALSE(table.isForbidden(2));
}

} // namespace
