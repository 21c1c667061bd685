//===- Rescue.cpp - saves a run that cannot write its model ---------------===//
//
// Space is checked before the first step (Space.h), but disks fill up and
// folders vanish during a run. Then the state is written where there is room,
// as a checkpoint that --resume accepts, so that days of training are not lost.
// If there is no room anywhere, the run waits for some time.
//
//===----------------------------------------------------------------------===//
#include "../run/AtomicFile.h"
#include "TrainedModel.h"
#include "Trainer.h"

#include "kerf/rt/printable.h"

#include <chrono>
#include <cstdlib>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

using namespace kerf::rt;

static constexpr int kWaitSeconds = 600;

void Trainer::writeOutputs() {
  std::optional<Error> first;
  auto attempt = [&](auto write) {
    try {
      write();
      return true;
    } catch (const Error &error) {
      // A state that is not finite is not written.
      if (error.code != KERF_IO_ERROR)
        throw;
      if (!first)
        first = error;
      return false;
    }
  };
  bool saved = attempt([&] { checkpoint(); }) && !options.checkpointDir.empty();
  bool wrote = attempt([&] {
    if (!options.output.empty())
      writeTrainedModel(options, *weights, session, state.step);
  });
  wrote &= attempt([&] {
    if (!options.safetensors.empty())
      writeTrainedSafetensors(options.safetensors, *weights, options.shapes,
                              session, state.step);
  });
  attempt([&] { writeMeasurements(); });
  if (!wrote && !saved)
    rescue(*first);
  if (first && !wrote && saved)
    first->notes.push_back(
        "the run's state after step " + std::to_string(state.step) + " is in " +
        options.checkpointDir + ": option resume writes the rest");
  if (first)
    throw *first;
}

void Trainer::rescue(Error error) {
  progress->clear();
  std::vector<std::string> folders = {".", "/tmp", "/var/tmp"};
  for (const char *name : {"TMPDIR", "HOME"})
    if (const char *folder = std::getenv(name); folder && *folder)
      folders.insert(folders.begin() + 1, folder);
  auto save = [&] {
    for (const std::string &folder : folders) {
      std::string place = cat(folder, "/kerf-rescue-", ::getpid());
      try {
        writeCheckpoint(place, state, recipe, *weights, session);
      } catch (const Error &again) {
        ::rmdir(place.c_str()); // if it is empty
        if (again.code != KERF_IO_ERROR)
          throw;
        continue;
      }
      error.notes.push_back(
          cat("the run's state after step ", state.step, " is saved in ", place,
              ": the same run with option checkpoint-dir=", place,
              " and option resume writes what is missing"));
      return true;
    }
    return false;
  };
  if (save())
    throw error;
  struct rlimit largest; // a limit of the process does not go by itself
  bool canWait = ::getrlimit(RLIMIT_FSIZE, &largest) != 0 ||
                 largest.rlim_cur == RLIM_INFINITY;
  if (canWait)
    say(err, cat("warning: ", printable(error.message),
                 "; nor is there room for a checkpoint elsewhere: waits ",
                 kWaitSeconds, " s for space (Ctrl-C gives up)\n"));
  for (int second = 0; canWait && second < kWaitSeconds && !stopRequested();
       ++second) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    if (second % 5 == 0 && save())
      throw error;
  }
  error.notes.push_back("what was trained is lost");
  throw error;
}
