//===- RendezvousTest.cpp - finding rank, size and each other -------------===//
#include "comm/Rendezvous.h"
#include "comm/tcp/Socket.h"

#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <thread>

using namespace kerf::rt;
using testing::HasSubstr;

namespace {
using Variables = std::map<std::string, std::string>;

JobEnvironment read(const Variables &variables) {
  return jobEnvironment([&](const char *name) -> const char * {
    auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

void expectRefused(const Variables &variables, const std::string &text) {
  try {
    read(variables);
    FAIL() << "expected: " << text;
  } catch (const Error &error) {
    EXPECT_EQ(error.code, KERF_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, HasSubstr(text));
  }
}

const Variables torchrun = {{"RANK", "3"},        {"WORLD_SIZE", "4"},
                            {"LOCAL_RANK", "1"},  {"LOCAL_WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}};

TEST(JobEnvironment, NothingIsOneProcess) {
  JobEnvironment job = read({});
  EXPECT_EQ(job.launcher, JobEnvironment::None);
  EXPECT_EQ(job.size, 1);
}

TEST(JobEnvironment, Torchrun) {
  JobEnvironment job = read(torchrun);
  EXPECT_EQ(job.launcher, JobEnvironment::Torchrun);
  EXPECT_EQ(job.rank, 3);
  EXPECT_EQ(job.size, 4);
  EXPECT_EQ(job.localRank, 1);
  EXPECT_EQ(job.localSize, 2);
  EXPECT_EQ(job.masterAddress, "h");
  EXPECT_EQ(job.masterPort, 29500);
  // torchrun's agent serves its own store on that port.
  Variables agent = torchrun;
  agent["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(read(agent).masterPort, 29501);
  agent["KERF_PORT"] = "1234";
  EXPECT_EQ(read(agent).masterPort, 1234);
}

TEST(JobEnvironment, OpenMpiComesFirst) {
  Variables both = torchrun;
  both["OMPI_COMM_WORLD_RANK"] = "1";
  both["OMPI_COMM_WORLD_SIZE"] = "2";
  both["OMPI_COMM_WORLD_LOCAL_RANK"] = "1";
  EXPECT_EQ(read(both).launcher, JobEnvironment::OpenMpi);
  EXPECT_EQ(read(both).size, 2);
  both["KERF_LAUNCHER"] = "torchrun";
  EXPECT_EQ(read(both).size, 4);
  both["KERF_LAUNCHER"] = "none";
  EXPECT_EQ(read(both).size, 1);
}

TEST(JobEnvironment, Slurm) {
  JobEnvironment job = read({{"SLURM_PROCID", "5"},
                             {"SLURM_NTASKS", "8"},
                             {"SLURM_LOCALID", "1"},
                             {"SLURM_JOB_ID", "41234"},
                             {"SLURM_JOB_NODELIST", "gpu[03-05,9]"}});
  EXPECT_EQ(job.launcher, JobEnvironment::Slurm);
  EXPECT_EQ(job.rank, 5);
  EXPECT_EQ(job.localRank, 1);
  EXPECT_EQ(job.masterAddress, "gpu03");
  EXPECT_EQ(job.masterPort, 20000 + 1234);
}

TEST(JobEnvironment, FirstHostOfALists) {
  EXPECT_EQ(firstHost("a"), "a");
  EXPECT_EQ(firstHost("a,b[1-2]"), "a");
  EXPECT_EQ(firstHost("n[1,3]"), "n1");
  EXPECT_EQ(firstHost("n[001-008]-ib,m"), "n001-ib");
}

TEST(JobEnvironment, WhatIsWrongIsNamed) {
  Variables v = torchrun;
  v["RANK"] = "x";
  expectRefused(v, "RANK is 'x', expected a number");
  v["RANK"] = "4";
  expectRefused(v, "RANK is 4, expected less than the 4 of WORLD_SIZE");
  v = torchrun;
  v.erase("MASTER_ADDR");
  expectRefused(v, "MASTER_ADDR is not set");
  v = torchrun;
  v["MASTER_PORT"] = "70000";
  expectRefused(v, "MASTER_PORT is '70000'");
  v = torchrun;
  v.erase("MASTER_PORT");
  expectRefused(v, "MASTER_PORT is not set");
  expectRefused({{"KERF_LAUNCHER", "pdsh"}}, "expected none, mpi, torchrun");
  expectRefused({{"KERF_LAUNCHER", "mpi"}}, "OMPI_COMM_WORLD_SIZE is ''");
}

TEST(Store, SetGetWait) {
  StoreServer server("127.0.0.1", 0);
  auto a = connectStore("127.0.0.1", server.port(), 5);
  auto b = connectStore("127.0.0.1", server.port(), 5);
  EXPECT_FALSE(a->get("id").has_value());
  std::string big(100000, '\0');
  big[7] = 'x';
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    b->set("id", big);
  });
  EXPECT_EQ(a->wait("id", 5), big);
  later.join();
  b->set("id", "");
  EXPECT_EQ(a->get("id"), std::string());
}

TEST(Store, DeadlinesNameWhatIsMissing) {
  StoreServer server("127.0.0.1", 0);
  auto store = connectStore("127.0.0.1", server.port(), 5);
  try {
    store->wait("nccl", 0.1, "rank 0's unique id");
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.code, KERF_RANK_FAILURE);
    EXPECT_EQ(error.message, "rank 0's unique id was not there within 0.1 s");
  }
  store->set("join/2", "");
  try {
    store->gather("join", 0, 4, "", 0.1);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.message,
              "ranks 1, 3 did not join the 4 ranks of the job within 0.1 s");
  }
}

TEST(Store, RanksGather) {
  int port = 0;
  {
    StoreServer probe("127.0.0.1", 0);
    port = probe.port();
  }
  std::vector<std::thread> ranks;
  for (int rank = 2; rank >= 0; --rank)
    ranks.emplace_back([rank, port] {
      JobEnvironment env;
      env.rank = rank;
      env.size = 3;
      env.masterAddress = "127.0.0.1";
      env.masterPort = port;
      auto store = openJobStore(env, 5);
      EXPECT_EQ(store->gather("x", rank, 3, std::to_string(rank), 5),
                (std::vector<std::string>{"0", "1", "2"}));
      store->gather("bye", rank, 3, "", 5);
      if (rank == 0) // it serves the others' last question
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    });
  for (std::thread &rank : ranks)
    rank.join();
}

TEST(Store, NobodyServes) {
  int port = 0;
  {
    StoreServer probe("127.0.0.1", 0);
    port = probe.port();
  }
  auto begin = std::chrono::steady_clock::now();
  try {
    connectStore("127.0.0.1", port, 0.3);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.code, KERF_RANK_FAILURE);
    EXPECT_THAT(error.message,
                HasSubstr("rank 0 did not open the rendezvous within 0.3 s"));
    EXPECT_THAT(error.message, HasSubstr("refused"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

// Whoever does not greet, or asks for too much, is shown the door; the others
// are served on.
TEST(Store, StrangersAreRefused) {
  StoreServer server("127.0.0.1", 0);
  for (std::string text : {std::string("GET / HTTP/1.1\r\n\r\n"),
                           std::string("kerfst01") + std::string(12, '\xff')}) {
    Socket stranger = connectTo("127.0.0.1", server.port(), deadlineAfter(5));
    stranger.writeAll(text.data(), text.size(), deadlineAfter(5));
    char byte;
    EXPECT_THROW(stranger.readAll(&byte, 1, deadlineAfter(5)), Error);
  }
  auto store = connectStore("127.0.0.1", server.port(), 5);
  store->set("a", "b");
  EXPECT_EQ(store->get("a"), "b");
}

TEST(Store, PortThatIsTaken) {
  StoreServer first("127.0.0.1", 0);
  try {
    StoreServer second("127.0.0.1", first.port());
    FAIL();
  } catch (const Error &error) {
    EXPECT_THAT(error.message, HasSubstr("cannot listen on 127.0.0.1:"));
  }
}
} // namespace
