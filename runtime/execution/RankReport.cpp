//===- RankReport.cpp - a rank's figures for statistics -------------------===//
#include "RankReport.h"

#include "../comm/processes/Reports.h"

using namespace kerf::rt;

RankReport kerf::rt::reportOf(const Rank &rank, bool withTrace) {
  RankReport report;
  report.counters = rank.counters();
  report.stage = rank.stage();
  report.instructionSeconds = rank.instructionSeconds();
  if (rank.numSplit() > 1) {
    report.timedSteps = rank.numSplit() - 1;
    const Rank::FirstStep &first = rank.firstStep();
    auto leaveOut = [](std::vector<CommCounters::Entry> &entries,
                       const std::vector<double> &seconds) {
      for (size_t i = 0; i < entries.size(); ++i)
        entries[i].seconds -= seconds[i];
    };
    leaveOut(report.counters.collectives, first.collectives);
    leaveOut(report.counters.sends, first.sends);
    leaveOut(report.counters.receives, first.receives);
    for (size_t i = 0; i < first.instructions.size(); ++i)
      report.instructionSeconds[i] -= first.instructions[i];
  }
  report.arenaBytes = rank.arenaBytes();
  report.workspaceBytes = rank.workspaceBytes();
  report.parameterBytes = rank.parameterBytes();
  report.sharesDevice = rank.sharesDevice();
  report.deviceSeconds = rank.deviceSeconds();
  report.splits = rank.splits();
  if (withTrace) {
    report.trace = rank.trace().all();
    report.droppedEvents = rank.trace().numDropped();
    report.spans = rank.deviceSpans();
  }
  return report;
}

std::string kerf::rt::packReport(const RankReport &report) {
  Packer packer;
  packer.add(report.counters.collectives);
  packer.add(report.counters.sends);
  packer.add(report.counters.receives);
  packer.add(report.stage);
  packer.add(report.instructionSeconds);
  packer.add(report.timedSteps);
  packer.add(report.arenaBytes);
  packer.add(report.workspaceBytes);
  packer.add(report.parameterBytes);
  packer.add(report.sharesDevice);
  packer.add(report.trace);
  packer.add(report.droppedEvents);
  packer.add(report.spans);
  packer.add(report.deviceSeconds);
  packer.add(report.splits);
  return packer.take();
}

RankReport kerf::rt::unpackReport(const std::string &text,
                                  const WorldSpec &spec) {
  RankReport report;
  report.counters = unpackCounters(text, spec);
  Unpacker unpacker(text);
  CommCounters skipped;
  unpacker.get(skipped.collectives);
  unpacker.get(skipped.sends);
  unpacker.get(skipped.receives);
  unpacker.get(report.stage);
  unpacker.get(report.instructionSeconds);
  unpacker.get(report.timedSteps);
  unpacker.get(report.arenaBytes);
  unpacker.get(report.workspaceBytes);
  unpacker.get(report.parameterBytes);
  unpacker.get(report.sharesDevice);
  unpacker.get(report.trace);
  unpacker.get(report.droppedEvents);
  unpacker.get(report.spans);
  unpacker.get(report.deviceSeconds);
  unpacker.get(report.splits);
  return report;
}
