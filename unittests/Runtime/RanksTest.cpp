//===- RanksTest.cpp - ranks that run the code of another compiler --------===//
//
// The C ABI of kerf/rt/ranks.h, called as generated code calls it: parts of
// whole tensors, collectives, channels, and what happens when a rank fails.
//
//===----------------------------------------------------------------------===//
#include "kerf/rt/ranks.h"

#include <atomic>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <regex>
#include <set>
#include <stdexcept>

using ::testing::HasSubstr;

namespace {

using Ranks = std::unique_ptr<kerf_ranks_t, void (*)(kerf_ranks_t *)>;
using Body = std::function<void(kerf_rank_t *)>;

struct Outcome {
  kerf_code_t code;
  std::string message;
};

Outcome outcomeOf(kerf_status_t status) {
  Outcome outcome{kerf_status_code(status),
                  status ? kerf_status_message(status) : ""};
  kerf_status_free(status);
  return outcome;
}

Ranks makeRanks(const std::string &program, double deadline = 30,
                int padding = 0) {
  kerf_ranks_options_t options = {};
  options.struct_size = sizeof(options);
  options.deadline_seconds = deadline;
  options.padding = padding;
  kerf_ranks_t *ranks = nullptr;
  Outcome outcome =
      outcomeOf(kerf_ranks_create(program.c_str(), &options, &ranks));
  EXPECT_EQ(outcome.code, KERF_OK) << outcome.message;
  return {ranks, kerf_ranks_destroy};
}

Outcome run(const Ranks &ranks, Body body) {
  return outcomeOf(kerf_ranks_run(
      ranks.get(),
      [](kerf_rank_t *rank, void *user) { (*static_cast<Body *>(user))(rank); },
      &body));
}

/// A description with these members behind schema and abi.
std::string program(const std::string &members) {
  return R"({"schema": "kerf.ranks/1", "abi": 1, )" + members + "}";
}
const std::string kFour = R"("mesh": {"axes": [{"name": "tp", "size": 4}]})";

std::string allReduce(int64_t size, int64_t bytes) {
  std::string shape = "[" + std::to_string(size) + "]";
  return R"({"kind": "all_reduce", "dtype": "f64", "axes": [{"axis": "tp"}],
             "src_shape": )" +
         shape + R"(, "dst_shape": )" + shape +
         R"(, "reduction": "sum", "group_bytes": )" + std::to_string(bytes) +
         R"(, "node": "here"})";
}

// 7 elements over 4 ranks: 2, 2, 2, 1 and one of padding.
TEST(Ranks, TakeAndGivePartsOfWholeTensors) {
  for (int padding : {0, 0xFF}) {
    Ranks ranks = makeRanks(
        program(kFour + R"(, "parts": [{"dtype": "i32", "global_shape": [7],
          "local_shape": [2], "sharding": [[{"axis": "tp"}]]}])"),
        30, padding);
    ASSERT_EQ(kerf_ranks_size(ranks.get()), 4);
    const int32_t in[7] = {1, 2, 3, 4, 5, 6, 7};
    int32_t out[9] = {0, 0, 0, 0, 0, 0, 0, 8, 9};
    std::atomic<int> last{1};
    Outcome outcome = run(ranks, [&](kerf_rank_t *rank) {
      int32_t part[2] = {-5, -5};
      kerf_rank_take(rank, 0, 0, in, part);
      if (kerf_rank_number(rank) == 3)
        last = part[1];
      for (int32_t &value : part)
        value *= 10;
      kerf_rank_give(rank, 0, 0, part, out);
    });
    EXPECT_EQ(outcome.code, KERF_OK) << outcome.message;
    EXPECT_EQ(last, padding ? -1 : 0);
    EXPECT_THAT(out, ::testing::ElementsAre(10, 20, 30, 40, 50, 60, 70, 8, 9));
  }
}

// Only one of the ranks that hold the same part writes it.
TEST(Ranks, OnePartIsGivenOnce) {
  Ranks ranks = makeRanks(
      program(kFour + R"(, "parts": [{"dtype": "i32", "global_shape": [1],
                                      "sharding": [[]]}])"));
  int32_t out = -1;
  Outcome outcome = run(ranks, [&](kerf_rank_t *rank) {
    auto mine = static_cast<int32_t>(kerf_rank_number(rank));
    kerf_rank_give(rank, 0, 0, &mine, &out);
  });
  EXPECT_EQ(outcome.code, KERF_OK) << outcome.message;
  EXPECT_EQ(out, 0);
}

TEST(Ranks, CollectivesAtOnceAndInHalves) {
  Ranks ranks = makeRanks(program(kFour + R"(, "collectives": [)" +
                                  allReduce(3, 2 * 3 * 24) + "," +
                                  allReduce(1, 2 * 3 * 8) + "]"));
  for (int step = 1; step <= 2; ++step) {
    Outcome outcome = run(ranks, [&](kerf_rank_t *rank) {
      double number = static_cast<double>(kerf_rank_number(rank));
      double x[3] = {1, number, 10 * number}, sums[3], y = 1, count = 0;
      kerf_rank_start(rank, 1, &y, &count);
      kerf_rank_collective(rank, 0, x, sums);
      kerf_rank_wait(rank, 1);
      if (sums[0] != 4 || sums[1] != 6 || sums[2] != 60 || count != 4)
        kerf_rank_fail(rank, "wrong sums");
    });
    EXPECT_EQ(outcome.code, KERF_OK) << outcome.message;
    EXPECT_EQ(kerf_ranks_sent_bytes(ranks.get()), step * 2 * 3 * (24 + 8));
  }
}

// What a host writes is what ranks load, and what they store is what it reads
// and the next run loads: 7 elements over two ranks of the second of two
// stages.
TEST(Ranks, KeepParametersBetweenRuns) {
  Ranks ranks = makeRanks(
      program(
          R"("mesh": {"axes": [{"name": "pp", "size": 2}, {"name": "tp", "size": 2}],
                          "stage_axis": "pp"},
         "parameters": [{"name": "w", "dtype": "i32", "global_shape": [7],
                         "local_shape": [4], "sharding": [[{"axis": "tp"}]],
                         "stages": [1]}])"),
      30, 0xFF);
  int32_t values[7] = {1, 2, 3, 4, 5, 6, 7};
  auto step = [&](kerf_rank_t *rank) {
    if (kerf_rank_number(rank) < 2)
      return;
    int32_t part[4] = {-5, -5, -5, -5};
    kerf_rank_load(rank, 0, part);
    if (kerf_rank_number(rank) == 3 && part[3] != 0)
      kerf_rank_fail(rank, "padding is not zero");
    for (int32_t &value : part)
      value *= 10;
    kerf_rank_store(rank, 0, part);
  };
  EXPECT_THAT(
      run(ranks, step).message,
      HasSubstr("parameter \"w\" has no value, which kerf_ranks_write"));

  ranks = makeRanks(program(
      R"("mesh": {"axes": [{"name": "pp", "size": 2}, {"name": "tp", "size": 2}],
                          "stage_axis": "pp"},
         "parameters": [{"name": "w", "dtype": "i32", "global_shape": [7],
                         "sharding": [[{"axis": "tp"}]], "stages": [1]}])"));
  int32_t read[7];
  EXPECT_THAT(outcomeOf(kerf_ranks_read(ranks.get(), "w", read)).message,
              HasSubstr("parameter \"w\" has no value"));
  EXPECT_EQ(outcomeOf(kerf_ranks_write(ranks.get(), "v", values)).message,
            "the program has no parameter \"v\"");
  EXPECT_EQ(outcomeOf(kerf_ranks_write(ranks.get(), nullptr, values)).code,
            KERF_INVALID_ARGUMENT);
  ASSERT_EQ(outcomeOf(kerf_ranks_write(ranks.get(), "w", values)).code,
            KERF_OK);
  for (int times = 0; times < 2; ++times) {
    Outcome outcome = run(ranks, step);
    ASSERT_EQ(outcome.code, KERF_OK) << outcome.message;
  }
  ASSERT_EQ(outcomeOf(kerf_ranks_read(ranks.get(), "w", read)).code, KERF_OK);
  EXPECT_THAT(read, ::testing::ElementsAre(100, 200, 300, 400, 500, 600, 700));
  EXPECT_THAT(run(ranks,
                  [](kerf_rank_t *rank) {
                    int32_t part[4];
                    if (kerf_rank_number(rank) == 0)
                      kerf_rank_load(rank, 0, part);
                  })
                  .message,
              HasSubstr("parameter \"w\" is not kept by rank 0"));
}

TEST(Ranks, ChannelsJoinStages) {
  Ranks ranks = makeRanks(program(
      R"("mesh": {"axes": [{"name": "pp", "size": 2}, {"name": "tp", "size": 2}],
                  "stage_axis": "pp", "time_axis": {"name": "mb", "size": 3}},
         "channels": [{"from_stage": 0, "to_stage": 1, "dtype": "i64",
                       "shape": [2], "bytes": 16}])"));
  Outcome outcome = run(ranks, [&](kerf_rank_t *rank) {
    int64_t number = kerf_rank_number(rank);
    if (number < 2) {
      auto sent = std::make_unique<int64_t[]>(6);
      for (int64_t mb = 0; mb < 3; ++mb) {
        sent[2 * mb] = number;
        sent[2 * mb + 1] = mb;
        kerf_rank_send(rank, 0, mb, &sent[2 * mb]);
      }
      kerf_rank_finish(rank, 0);
      return;
    }
    for (int64_t mb = 0; mb < 3; ++mb) {
      int64_t got[2] = {-1, -1};
      kerf_rank_receive(rank, 0, mb, got);
      if (got[0] != number - 2 || got[1] != mb)
        kerf_rank_fail(rank, "another value");
    }
  });
  EXPECT_EQ(outcome.code, KERF_OK) << outcome.message;
  EXPECT_EQ(kerf_ranks_sent_bytes(ranks.get()), 2 * 3 * 16);
}

TEST(Ranks, DescriptionsAreChecked) {
  struct {
    std::string text;
    kerf_code_t code;
    const char *message;
  } cases[] = {
      {"", KERF_BAD_PACKAGE, "program: "},
      {R"({"schema": "kerf.plan/1", "abi": 1})", KERF_BAD_PACKAGE,
       "program: schema: is \"kerf.plan/1\", expected \"kerf.ranks/1\""},
      {R"({"schema": "kerf.ranks/2", "abi": 1})", KERF_OTHER_VERSION,
       "newer than"},
      {R"({"schema": "kerf.ranks/1", "abi": 99})", KERF_OTHER_VERSION,
       "abi: is 99, newer than 2"},
      {program(R"("mesh": {"axes": [{"name": "tp", "size": 0}]})"),
       KERF_BAD_PACKAGE, "program: mesh.axes[0].size: expected an integer"},
      {program(kFour + R"(, "color": 1)"), KERF_BAD_PACKAGE, "color"},
      {program(kFour + R"(, "parts": [{"dtype": "f4", "global_shape": [1],
                                       "sharding": [[]]}])"),
       KERF_BAD_PACKAGE, "program: parts[0].dtype: unknown data type"},
      {program(kFour + R"(, "parts": [{"dtype": "f32", "global_shape": [7],
          "local_shape": [3], "sharding": [[{"axis": "tp"}]]}])"),
       KERF_BAD_PACKAGE,
       "program: parts[0].local_shape: is 3, the sharding gives 2"},
      {program(kFour + R"(, "parameters": [{"name": "w", "dtype": "f32",
          "global_shape": [7], "sharding": [[]], "stages": [1]}])"),
       KERF_BAD_PACKAGE, "program: parameters[0].stages[0]: "},
      {program(kFour + R"(, "parameters": [{"name": "w", "dtype": "f32",
          "global_shape": [7], "sharding": [[]], "stages": [0]},
          {"name": "w", "dtype": "f32", "global_shape": [7], "sharding": [[]],
          "stages": [0]}])"),
       KERF_BAD_PACKAGE,
       "program: parameters[1].name: \"w\" is twice in the list"},
      {program(kFour + R"(, "collectives": [{"kind": "all_join"}])"),
       KERF_BAD_PACKAGE, "unknown collective \"all_join\""},
  };
  for (const auto &each : cases) {
    kerf_ranks_t *ranks = nullptr;
    Outcome outcome =
        outcomeOf(kerf_ranks_create(each.text.c_str(), nullptr, &ranks));
    EXPECT_EQ(outcome.code, each.code) << each.text << outcome.message;
    EXPECT_THAT(outcome.message, HasSubstr(each.message));
    EXPECT_EQ(ranks, nullptr);
  }
  kerf_ranks_t *ranks = nullptr;
  EXPECT_EQ(outcomeOf(kerf_ranks_create(nullptr, nullptr, &ranks)).code,
            KERF_INVALID_ARGUMENT);
  kerf_ranks_options_t options = {};
  options.struct_size = sizeof(options);
  options.deadline_seconds = -1;
  EXPECT_EQ(
      outcomeOf(kerf_ranks_create(program(kFour).c_str(), &options, &ranks))
          .code,
      KERF_INVALID_ARGUMENT);
  // An older caller's options end earlier: what is behind is not read.
  options.struct_size = offsetof(kerf_ranks_options_t, deadline_seconds);
  EXPECT_EQ(
      outcomeOf(kerf_ranks_create(program(kFour).c_str(), &options, &ranks))
          .code,
      KERF_OK);
  kerf_ranks_destroy(ranks);
}

// Numbers come from generated code: those out of range end the run.
TEST(Ranks, NumbersOutOfRangeEndTheRun) {
  double x = 1, y = 0;
  std::pair<Body, const char *> cases[] = {
      {[&](kerf_rank_t *rank) { kerf_rank_take(rank, 1, 0, &x, &y); },
       "part 1 of 1"},
      {[&](kerf_rank_t *rank) { kerf_rank_give(rank, 0, 1, &x, &y); },
       "micro-batch 1 of 1"},
      {[&](kerf_rank_t *rank) { kerf_rank_load(rank, 0, &y); },
       "parameter 0 of 0"},
      {[&](kerf_rank_t *rank) { kerf_rank_store(rank, -1, &x); },
       "parameter -1 of 0"},
      {[&](kerf_rank_t *rank) { kerf_rank_collective(rank, -1, &x, &y); },
       "collective -1 of 1"},
      {[&](kerf_rank_t *rank) { kerf_rank_start(rank, 1, &x, &y); },
       "collective 1 of 1"},
      {[&](kerf_rank_t *rank) { kerf_rank_wait(rank, 2); },
       "collective 2 of 1"},
      {[&](kerf_rank_t *rank) { kerf_rank_send(rank, 0, 0, &x); },
       "channel 0 of 0"},
      {[&](kerf_rank_t *rank) { kerf_rank_receive(rank, 0, 0, &x); },
       "channel 0 of 0"},
      {[&](kerf_rank_t *rank) { kerf_rank_finish(rank, 3); },
       "channel 3 of 0"}};
  for (auto &[body, message] : cases) {
    Ranks ranks = makeRanks(
        program(kFour + R"(, "parts": [{"dtype": "f64", "global_shape": [1],
                                "sharding": [[]]}], "collectives": [)" +
                allReduce(1, 48) + "]"));
    const Body &one = body;
    Outcome outcome = run(ranks, [&](kerf_rank_t *rank) {
      if (kerf_rank_number(rank) == 2)
        one(rank);
    });
    EXPECT_EQ(outcome.code, KERF_INVALID_ARGUMENT) << message;
    EXPECT_EQ(outcome.message, message);
    EXPECT_THAT(run(ranks, [](kerf_rank_t *) {}).message,
                HasSubstr("have failed before"));
  }
}

TEST(Ranks, RanksThatDisagreeAreNamed) {
  Ranks ranks =
      makeRanks(program(kFour + R"(, "collectives": [)" + allReduce(1, 48) +
                        "," + allReduce(2, 96) + "]"));
  Outcome outcome = run(ranks, [&](kerf_rank_t *rank) {
    double x[2] = {1, 1}, y[2];
    kerf_rank_collective(rank, kerf_rank_number(rank) == 1, x, y);
  });
  EXPECT_EQ(outcome.code, KERF_MISMATCH);
  EXPECT_THAT(outcome.message, HasSubstr("ranks disagree"));
}

TEST(Ranks, ARankThatDoesNotComeIsNamed) {
  Ranks ranks = makeRanks(
      program(kFour + R"(, "collectives": [)" + allReduce(1, 48) + "]"), 0.2);
  Outcome outcome = run(ranks, [&](kerf_rank_t *rank) {
    double x = 1, y = 0;
    if (kerf_rank_number(rank) != 3)
      kerf_rank_collective(rank, 0, &x, &y);
  });
  EXPECT_EQ(outcome.code, KERF_RANK_FAILURE);
  EXPECT_THAT(outcome.message,
              HasSubstr("rank 3 did not arrive at all_reduce"));
  EXPECT_THAT(outcome.message, HasSubstr("at here"));
}

// Bytes that the description says are held against those of the calls.
TEST(Ranks, BytesAreCompared) {
  Ranks ranks = makeRanks(
      program(kFour + R"(, "collectives": [)" + allReduce(1, 47) + "]"));
  Outcome outcome = run(ranks, [&](kerf_rank_t *rank) {
    double x = 1, y = 0;
    kerf_rank_collective(rank, 0, &x, &y);
  });
  EXPECT_EQ(outcome.code, KERF_BYTES_DIFFER);
}

TEST(Ranks, ExceptionsOfAHostEndTheRun) {
  Ranks ranks = makeRanks(
      program(kFour + R"(, "collectives": [)" + allReduce(1, 48) + "]"));
  Outcome outcome = run(ranks, [&](kerf_rank_t *rank) {
    double x = 1, y = 0;
    if (kerf_rank_number(rank) == 1)
      throw std::runtime_error("no more");
    kerf_rank_collective(rank, 0, &x, &y);
  });
  EXPECT_NE(outcome.code, KERF_OK);
  EXPECT_THAT(outcome.message, HasSubstr("no more"));
}

// Whoever sees a failure may free its buffers at once: no other rank reads or
// writes them any more. (Sanitizers see it.)
TEST(Ranks, BuffersAreFreeAfterAFailure) {
  // So large that the memory is gone, and so is the work still under way.
  constexpr int64_t kSize = 1 << 20;
  for (int64_t round = 0; round < 12; ++round) {
    Ranks ranks = makeRanks(program(kFour + R"(, "collectives": [)" +
                                    allReduce(kSize, 2 * 3 * 8 * kSize) + "]"));
    Outcome outcome = run(ranks, [&](kerf_rank_t *rank) {
      for (int64_t step = 0; step < 3; ++step) {
        auto x = std::make_unique<double[]>(kSize);
        auto y = std::make_unique<double[]>(kSize);
        kerf_rank_start(rank, 0, x.get(), y.get());
        if (kerf_rank_number(rank) == round % 4 && step == round % 3)
          kerf_rank_fail(rank, "stops");
        kerf_rank_wait(rank, 0);
      }
    });
    EXPECT_EQ(outcome.code, KERF_PROGRAM_FAILURE);
    EXPECT_EQ(outcome.message, "rank " + std::to_string(round % 4) + ": stops");
  }
}

TEST(Ranks, SymbolsAreThoseOfTheHeader) {
  std::ifstream file(KERF_TEST_INCLUDE "/kerf/rt/ranks.h");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::set<std::string> declared, listed;
  std::regex name(R"(\b(kerf_rank_\w+)\(kerf_rank_t)");
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end;
       ++it)
    declared.insert((*it)[1]);
  for (auto *symbol = kerf_ranks_symbols(); symbol->name; ++symbol) {
    EXPECT_NE(symbol->address, nullptr);
    listed.insert(symbol->name);
  }
  EXPECT_EQ(listed, declared);
  EXPECT_GE(listed.size(), 12u);
}

} // namespace
