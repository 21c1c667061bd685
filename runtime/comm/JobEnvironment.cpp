//===- JobEnvironment.cpp - rank and size from the launcher's variables ---===//
//
// Variables of several launchers may be set at once (srun inside a job that was
// made with salloc, torchrun below it): the order in Rendezvous.h decides.
//
//===----------------------------------------------------------------------===//
#include "Rendezvous.h"

#include <cstdlib>

using namespace kerf::rt;

namespace {
class Reader {
public:
  explicit Reader(const EnvironmentLookup &given)
      : lookup(given ? given : [](const char *name) -> const char * {
          return std::getenv(name);
        }) {}

  bool has(const char *name) const {
    const char *text = lookup(name);
    return text && *text;
  }
  std::string text(const char *name) const {
    return has(name) ? lookup(name) : "";
  }
  int64_t number(const char *name, int64_t min, int64_t max) const {
    std::string value = text(name);
    char *end = nullptr;
    long long parsed = std::strtoll(value.c_str(), &end, 10);
    if (value.empty() || *end || parsed < min || parsed > max)
      throw Error(KERF_INVALID_ARGUMENT,
                  cat("environment variable ", name, " is '", value,
                      "', expected a number from ", min, " to ", max));
    return parsed;
  }

private:
  EnvironmentLookup lookup;
};

constexpr int64_t maxRanks = 1 << 20;

void readRanks(const Reader &env, JobEnvironment &job, const char *rank,
               const char *size, const char *localRank, const char *localSize) {
  job.size = env.number(size, 1, maxRanks);
  job.rank = env.number(rank, 0, maxRanks);
  if (job.rank >= job.size)
    throw Error(KERF_INVALID_ARGUMENT,
                cat("environment variable ", rank, " is ", job.rank,
                    ", expected less than the ", job.size, " of ", size));
  // One process per host unless the launcher says otherwise.
  job.localRank = env.has(localRank) ? env.number(localRank, 0, maxRanks) : 0;
  job.localSize = env.has(localSize) ? env.number(localSize, 1, maxRanks) : 0;
}

/// MASTER_ADDR and MASTER_PORT; torchrun's agent may keep the port to itself.
void readMaster(const Reader &env, JobEnvironment &job) {
  job.storeServed = env.text("KERF_STORE") == "served";
  job.masterAddress = env.text("MASTER_ADDR");
  if (env.has("KERF_PORT")) {
    job.masterPort = static_cast<int>(env.number("KERF_PORT", 1, 65535));
  } else if (env.has("MASTER_PORT")) {
    bool taken = env.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
    job.masterPort =
        static_cast<int>(env.number("MASTER_PORT", 1, 65535 - taken) + taken);
  }
}

void readSlurm(const Reader &env, JobEnvironment &job) {
  const char *size =
      env.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  readRanks(env, job, "SLURM_PROCID", size, "SLURM_LOCALID", "KERF_LOCAL_SIZE");
  readMaster(env, job);
  if (job.masterAddress.empty())
    for (const char *list :
         {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
      if (env.has(list) && job.masterAddress.empty())
        job.masterAddress = firstHost(env.text(list));
  if (job.masterPort == 0 && env.has("SLURM_JOB_ID"))
    job.masterPort = static_cast<int>(
        20000 + env.number("SLURM_JOB_ID", 0, INT64_MAX) % 20000);
}
} // namespace

std::string kerf::rt::firstHost(const std::string &nodeList) {
  size_t bracket = nodeList.find('['), comma = nodeList.find(',');
  if (bracket == std::string::npos || comma < bracket)
    return nodeList.substr(0, comma);
  size_t end = nodeList.find_first_of(",-]", bracket + 1);
  if (end == std::string::npos)
    return "";
  std::string suffix;
  size_t close = nodeList.find(']', end);
  if (close != std::string::npos) {
    size_t next = nodeList.find(',', close);
    suffix = nodeList.substr(
        close + 1, next == std::string::npos ? next : next - close - 1);
  }
  return nodeList.substr(0, bracket) +
         nodeList.substr(bracket + 1, end - bracket - 1) + suffix;
}

JobEnvironment kerf::rt::jobEnvironment(const EnvironmentLookup &lookup) {
  Reader env(lookup);
  JobEnvironment job;
  std::string chosen = env.text("KERF_LAUNCHER");
  if (chosen == "mpi")
    job.launcher = JobEnvironment::OpenMpi;
  else if (chosen == "torchrun")
    job.launcher = JobEnvironment::Torchrun;
  else if (chosen == "slurm")
    job.launcher = JobEnvironment::Slurm;
  else if (!chosen.empty() && chosen != "none")
    throw Error(KERF_INVALID_ARGUMENT,
                "environment variable KERF_LAUNCHER is '" + chosen +
                    "', expected none, mpi, torchrun or slurm");
  else if (chosen.empty() && env.has("OMPI_COMM_WORLD_SIZE"))
    job.launcher = JobEnvironment::OpenMpi;
  else if (chosen.empty() && env.has("RANK") && env.has("WORLD_SIZE"))
    job.launcher = JobEnvironment::Torchrun;
  else if (chosen.empty() && env.has("SLURM_PROCID") && env.has("SLURM_NTASKS"))
    job.launcher = JobEnvironment::Slurm;
  switch (job.launcher) {
  case JobEnvironment::None:
    return job;
  case JobEnvironment::OpenMpi:
    readRanks(env, job, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
              "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
    readMaster(env, job);
    return job;
  case JobEnvironment::Torchrun:
    readRanks(env, job, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE");
    readMaster(env, job);
    break;
  case JobEnvironment::Slurm:
    readSlurm(env, job);
    break;
  }
  if (job.size > 1 && job.masterAddress.empty())
    throw Error(KERF_INVALID_ARGUMENT,
                cat("rank ", job.rank, " of ", job.size,
                    ": environment variable MASTER_ADDR is not set"));
  if (job.size > 1 && job.masterPort == 0)
    throw Error(KERF_INVALID_ARGUMENT,
                cat("rank ", job.rank, " of ", job.size,
                    ": environment variable MASTER_PORT is not set"));
  return job;
}
