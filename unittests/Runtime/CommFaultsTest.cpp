//===- CommFaultsTest.cpp - when ranks disagree, die or hang --------------===//
//
// Cases 19 to 21 of the promises: every rank ends with an error that names rank
// and operation, within the deadline and a little, and before data is used.
//
//===----------------------------------------------------------------------===//
#include "TestWorld.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

using namespace kerf::rt;
using namespace kerf::rt::test;
using testing::HasSubstr;

namespace {

WorldSpec worldOf(int64_t ranks, int numCollectives) {
  WorldSpec spec;
  spec.mesh = meshOf({ranks});
  for (int i = 0; i < numCollectives; ++i) {
    CollectiveDesc c;
    c.axes = axesOf(spec.mesh, {0});
    c.srcShape = c.dstShape = {4};
    c.node = "/layer" + std::to_string(i) + "/Add";
    spec.collectives.push_back(c);
  }
  spec.deadlineSeconds = 0.3;
  return spec;
}

void run(Comm &comm, int64_t index) {
  float data[64] = {1};
  float out[64];
  comm.start(index, data, out);
  comm.wait(index);
}

void expectAll(const std::vector<RankOutcome> &outcomes, kerf_code_t code,
               const std::vector<std::string> &texts) {
  for (const RankOutcome &outcome : outcomes) {
    if (outcome.died)
      continue;
    ASSERT_TRUE(outcome.failed);
    EXPECT_EQ(outcome.error.code, code) << outcome.error.message;
    for (const std::string &text : texts)
      EXPECT_THAT(outcome.error.message, HasSubstr(text));
  }
}

class CommFaults : public testing::TestWithParam<Implementation> {
protected:
  std::vector<RankOutcome>
  runRanks(const WorldSpec &spec,
           const std::function<void(int64_t, Comm &)> &body,
           double *seconds = nullptr) const {
    return test::runRanks(spec, body, seconds, GetParam().make);
  }
  void expectMismatch(const WorldSpec &spec) const;
  void expectGone(const char *fault) const;
};

INSTANTIATE_TEST_SUITE_P(All, CommFaults, testing::ValuesIn(implementations()),
                         [](const auto &info) { return info.param.name; });

/// Rank 1 runs collective 1 where all others run collective 0.
void CommFaults::expectMismatch(const WorldSpec &spec) const {
  auto outcomes =
      runRanks(spec, [&](int64_t rank, Comm &comm) { run(comm, rank == 1); });
  expectAll(outcomes, KERF_MISMATCH,
            {"rank 0 runs", "rank 1 runs", "/layer0/Add", "/layer1/Add"});
}

TEST_P(CommFaults, OperationsDiffer) {
  WorldSpec spec = worldOf(3, 2);
  spec.collectives[1].kind = CollectiveKind::Broadcast;
  expectMismatch(spec);
}

TEST_P(CommFaults, ReductionsDiffer) {
  WorldSpec spec = worldOf(2, 2);
  spec.collectives[1].reduction = Reduction::Max;
  expectMismatch(spec);
}

TEST_P(CommFaults, TypesDiffer) {
  WorldSpec spec = worldOf(2, 2);
  spec.collectives[1].dtype = KERF_I32;
  expectMismatch(spec);
}

// Nothing is written before the counts are compared.
TEST_P(CommFaults, CountsDifferBeforeDataIsUsed) {
  WorldSpec spec = worldOf(2, 2);
  spec.collectives[1].srcShape = spec.collectives[1].dstShape = {64};
  float results[2] = {-1, -1};
  auto outcomes = runRanks(spec, [&](int64_t rank, Comm &comm) {
    float data[64] = {1};
    float out[64] = {-1};
    try {
      comm.start(rank, data, out);
      comm.wait(rank);
    } catch (...) {
      results[rank] = out[0];
      throw;
    }
  });
  expectAll(outcomes, KERF_MISMATCH, {"f32 4 ", "f32 64 "});
  EXPECT_EQ(results[0], -1);
  EXPECT_EQ(results[1], -1);
}

// The same two collectives in another order: caught at the first.
TEST_P(CommFaults, OrderDiffers) {
  auto outcomes = runRanks(worldOf(2, 2), [&](int64_t rank, Comm &comm) {
    run(comm, rank);
    run(comm, 1 - rank);
  });
  expectAll(outcomes, KERF_MISMATCH, {"collective 0 of their group"});
}

// A rank that leaves one out is caught at the next.
TEST_P(CommFaults, SkippedCollective) {
  WorldSpec spec = worldOf(3, 3);
  spec.injection = parseInjection("rank=2,collective=1,fault=skip");
  auto outcomes = runRanks(spec, [&](int64_t, Comm &comm) {
    for (int64_t i = 0; i < 3; ++i)
      run(comm, i);
  });
  expectAll(outcomes, KERF_MISMATCH,
            {"rank 2 runs", "/layer1/Add", "/layer2/Add"});
}

void CommFaults::expectGone(const char *fault) const {
  WorldSpec spec = worldOf(4, 3);
  spec.injection = parseInjection(cat("rank=1,collective=2,fault=", fault));
  double seconds = 0;
  auto outcomes = runRanks(
      spec,
      [&](int64_t, Comm &comm) {
        for (int64_t i = 0; i < 3; ++i)
          run(comm, i);
      },
      &seconds);
  EXPECT_TRUE(outcomes[1].died);
  expectAll(outcomes, KERF_RANK_FAILURE,
            {"rank 1 did not arrive at all_reduce<sum>", "/layer2/Add",
             "within 0.3 s"});
  EXPECT_LT(seconds, 0.3 + 5);
  const Error &error = outcomes[0].error;
  EXPECT_EQ(error.node, "/layer2/Add");
  ASSERT_EQ(error.notes.size(), 4u); // the table
  EXPECT_THAT(error.notes[0], HasSubstr("rank 0: 3 collectives begun"));
  EXPECT_THAT(error.notes[0], HasSubstr("waiting in it"));
  EXPECT_THAT(error.notes[1],
              HasSubstr("rank 1: 2 collectives begun, last all_reduce"));
  EXPECT_THAT(error.notes[1], HasSubstr("not communicating"));
}

TEST_P(CommFaults, RankDies) { expectGone("die"); }
TEST_P(CommFaults, RankHangs) { expectGone("hang"); }

// A failure elsewhere ends a wait at once, long before the deadline.
TEST_P(CommFaults, FailureOfOneRankEndsAll) {
  WorldSpec spec = worldOf(3, 1);
  spec.deadlineSeconds = 60;
  double seconds = 0;
  auto outcomes = runRanks(
      spec,
      [&](int64_t rank, Comm &comm) {
        if (rank == 2) { // a wait for what was never started is an error
          comm.wait(0);
        } else {
          run(comm, 0);
        }
      },
      &seconds);
  expectAll(outcomes, KERF_INTERNAL, {"not started on rank 2"});
  EXPECT_LT(seconds, 5);
}

TEST_P(CommFaults, MicroBatchesDiffer) {
  WorldSpec spec = worldOf(2, 1);
  spec.mesh.stageAxis = 0;
  ChannelDesc channel;
  channel.toStage = 1;
  channel.shape = {3};
  channel.node = "/cut";
  spec.channels = {channel};
  spec.deadlineSeconds = 1;
  auto outcomes = runRanks(spec, [&](int64_t rank, Comm &comm) {
    float data[3] = {};
    if (rank == 0)
      comm.finishSend(0, comm.send(0, data, 4));
    else
      comm.receive(0, data, 5);
    run(comm, 0); // a sender may go on before its data is looked at
  });
  expectAll(outcomes, KERF_MISMATCH,
            {"micro-batch 4", "micro-batch 5", "channel 0"});
}

TEST_P(CommFaults, MissingSendIsNamed) {
  WorldSpec spec;
  spec.mesh = meshOf({2}, 0);
  ChannelDesc channel;
  channel.toStage = 1;
  channel.shape = {3};
  channel.node = "/cut";
  spec.channels = {channel};
  spec.deadlineSeconds = 0.2;
  auto outcomes = runRanks(spec, [&](int64_t rank, Comm &comm) {
    float data[3];
    if (rank == 1)
      comm.receive(0, data, 0);
  });
  ASSERT_TRUE(outcomes[1].failed);
  EXPECT_EQ(outcomes[1].error.code, KERF_RANK_FAILURE);
  EXPECT_THAT(outcomes[1].error.message,
              HasSubstr("rank 0 did not send number 0 on channel 0 at /cut"));
  EXPECT_THAT(outcomes[1].error.notes[1],
              HasSubstr("waiting to receive on channel 0"));
}

// Whoever waits for a rank that itself waits for a dead one does not blame the
// first: the end of the chain is named. Rank 0 dies; rank 1 waits for it, rank
// 3 for what rank 1 should send, rank 2 for rank 3.
TEST_P(CommFaults, TheEndOfTheChainIsBlamed) {
  WorldSpec spec;
  spec.mesh = meshOf({2, 2}, 0);
  spec.deadlineSeconds = 0.4;
  CollectiveDesc c;
  c.axes = axesOf(spec.mesh, {1});
  c.srcShape = c.dstShape = {4};
  c.node = "/first/Add";
  spec.collectives = {c, c};
  spec.collectives[1].node = "/second/Add";
  ChannelDesc channel;
  channel.toStage = 1;
  channel.shape = {4};
  spec.channels = {channel};
  spec.injection = parseInjection("rank=0,collective=0,fault=die");
  auto outcomes = runRanks(spec, [&](int64_t rank, Comm &comm) {
    float data[4] = {};
    if (rank == 1) // begins last: the others' deadlines come first
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (rank < 2) {
      run(comm, 0);
      comm.finishSend(0, comm.send(0, data, 0));
    } else if (rank == 3) {
      comm.receive(0, data, 0);
      run(comm, 1);
    } else {
      run(comm, 1);
    }
  });
  expectAll(outcomes, KERF_RANK_FAILURE,
            {"rank 0 did not arrive at all_reduce<sum> f32 4 at /first/Add"});
  EXPECT_EQ(outcomes[2].error.node, "/first/Add");
}

// Counted bytes are the planned bytes, or the run fails.
TEST_P(CommFaults, PlannedBytesDiffer) {
  WorldSpec spec = worldOf(2, 1);
  spec.collectives[0].plannedGroupBytes = 31; // right: 2 * 16
  try {
    runRanks(spec, [&](int64_t, Comm &comm) { run(comm, 0); });
    FAIL() << "the difference was not noticed";
  } catch (const Error &error) {
    EXPECT_EQ(error.code, KERF_BYTES_DIFFER);
    EXPECT_THAT(error.message, HasSubstr("are 32, planned are 31"));
  }
}

TEST(Injections, BadOnesAreRefused) {
  for (const char *text :
       {"", "rank=x", "rank=1,fault=burn", "rank=-1", "what=1", "rank"})
    EXPECT_THROW(parseInjection(text), Error) << text;
  Injection injection = parseInjection("fault=hang,collective=7,rank=2");
  EXPECT_EQ(injection.rank, 2);
  EXPECT_EQ(injection.collective, 7);
  EXPECT_EQ(injection.fault, Injection::Hang);
}
} // namespace
