//===- IdleFlags.cpp - flags that would change nothing --------------------===//
//
// Whoever gives a flag expects something of it, so one that would be ignored is
// an error. What the flags alone tell is refused here; what the model decides
// (--as-inference, --batch-norm, --random-inputs) is refused where it is read.
//
//===----------------------------------------------------------------------===//
#include "../Commands.h"

#include "kerf/Plan/MeshText.h"

using namespace kerf;
using namespace kerf::tool;

static void refuse(const std::string &message) {
  throw Failure{kUsage, message, {}};
}

static void refuseForGpus(const Options &o) {
  if (parseDevices(o.devices).kind == "cuda")
    return;
  for (auto [isGiven, flag] :
       {std::pair(!o.ptxas.empty(), "--ptxas"),
        std::pair(o.hostKernels, "--host-kernels"),
        std::pair(!o.kernelDumpDir.empty(), "--kernel-dump-dir")})
    if (isGiven)
      refuse(std::string(flag) + " is for GPUs, expected --devices=cuda:...");
}

static void refuseForTraining(const Options &o) {
  if (o.recompute != "auto")
    refuse("--recompute is of a step that trains; inference holds nothing for "
           "a backward pass");
  if (o.zero != "auto")
    refuse("--zero is of a step that trains; inference has neither gradients "
           "nor states");
  if (o.schedule != "auto")
    refuse("--schedule is of a pipeline that trains; inference has but one "
           "order");
}

/// A schedule orders stages: a mesh that is given whole must have some.
static void refuseSchedule(const Options &o) {
  if (o.schedule == "auto" || !o.planFile.empty())
    return;
  bool isCounted = o.devicesGiven || o.machine.empty();
  int64_t devices = parseDevices(o.devices).count, product = 1, stages = 0;
  if (isCounted && devices == 1)
    refuse("--schedule is of a pipeline, which takes several devices");
  std::vector<std::pair<std::string, int64_t>> mesh;
  if (!plan::parseMeshText(o.mesh, mesh).empty())
    return; // reported where it is used
  for (const auto &[name, size] : mesh) {
    product *= size;
    if (name == "pp")
      stages = size;
  }
  if (stages == 1 || (stages == 0 && isCounted && product == devices))
    refuse("--schedule is of a pipeline, and --mesh=" + o.mesh +
           " has one stage");
}

/// --seed is of inputs and ids that are drawn, and of random plans.
static void refuseSeed(const Options &o, int (*command)(const Options &)) {
  if (!o.seedGiven || o.solver == "random")
    return;
  if (command == tool::plan || command == compile)
    refuse("--seed: nothing is drawn here but with --solver=random");
  if (command == generate && o.temperature == 0)
    refuse("--seed: no id is drawn at --temperature=0, the default");
}

static void refuseDrawing(const Options &o) {
  for (auto [isGiven, flag] :
       {std::pair(o.topK != 0, "--top-k"), std::pair(o.topP != 1, "--top-p")})
    if (isGiven && o.temperature == 0)
      refuse(std::string(flag) +
             ": no id is drawn at --temperature=0, the default");
}

void kerf::tool::refuseIdle(const Options &o, int (*command)(const Options &)) {
  refuseForGpus(o);
  if (o.train || command == train)
    refuseSchedule(o);
  else
    refuseForTraining(o);
  refuseSeed(o, command);
  refuseDrawing(o);
  if (o.costModel != "ring" && o.objective != "volume" && o.planFile.empty())
    refuse("--cost-model is of --objective=volume, which counts bytes by it");
  if (o.referenceSecondsGiven && (o.reference != "auto" || !o.expected.empty()))
    refuse("--reference-seconds is of --reference=auto, which chooses by size");
  if (!o.quiet || o.json)
    return;
  if (command == report && o.html.empty())
    refuse("-q: kerf report prints, and does nothing else without --html");
  if (command == inspect)
    refuse("-q: kerf inspect prints, and does nothing else");
  if (!o.explain.empty() && o.output.empty())
    refuse("-q: the answer to --explain is printed, expected --json or no -q");
  if (!o.whatIf.empty() && o.output.empty())
    refuse("-q: the answer to --what-if is printed, expected --json or no -q");
}
