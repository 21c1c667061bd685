//===- RankReport.cpp - a rank's figures for statistics -------------------===//
#include "RankReport.h"

#include "../comm/processes/Reports.h"

using namespace kerf::rt;

RankReport kerf::rt::reportOf(const Rank &rank, bool withTrace) {
  RankReport report;
  report.counters = rank.counters();
  report.stage = rank.stage();
  report.instructionSeconds = rank.instructionSeconds();
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
