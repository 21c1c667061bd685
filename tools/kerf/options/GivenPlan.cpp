//===- GivenPlan.cpp - --plan ---------------------------------------------===//
#include "GivenPlan.h"

#include "../Setup.h"
#include "../files/FileKinds.h"
#include "../report/Report.h"

#include "kerf/Format/Schemas.h"
#include "kerf/Support/Json.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace kerf;
using namespace kerf::tool;

static std::string readFile(const std::string &path, const std::string &flag) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    throw Failure{kUsage,
                  path + ": " + buffer.getError().message(),
                  {"given by " + flag}};
  return (*buffer)->getBuffer().str();
}

llvm::json::Value kerf::tool::readPlan(const Options &o) {
  requirePlan(o.planFile);
  llvm::Expected<llvm::json::Value> json =
      kerf::parseJson(readFile(o.planFile, "--plan"));
  if (!json)
    throw Failure{
        kUsage,
        o.planFile + ": is not valid JSON: " + llvm::toString(json.takeError()),
        {}};
  const llvm::json::Object *root = json->getAsObject();
  std::string wrong =
      schemaMismatch(planSchema, root ? textAt(root, "schema") : "");
  if (!wrong.empty())
    throw Failure{kUsage, o.planFile + ": schema " + wrong, {}};
  return std::move(*json);
}

llvm::json::Value kerf::tool::readPlanOfIR(const Options &o) {
  if (!llvm::sys::fs::exists(o.planFile))
    throw Failure{kUsage,
                  o.planFile + ": no such file, but --from=" + o.from +
                      " needs the plan that the IR was made by",
                  {"kerf compile --dump-dir writes it beside the IR; "
                   "--plan=FILE names another"}};
  llvm::json::Value plan = readPlan(o);
  const llvm::json::Object *root = plan.getAsObject();
  if (!root->getObject("mesh"))
    throw Failure{kUsage, o.planFile + ": mesh: missing", {}};
  return plan;
}

void kerf::tool::takeFromPlan(const llvm::json::Value &plan,
                              autodiff::AutodiffOptions &t) {
  const llvm::json::Object *root = plan.getAsObject();
  const llvm::json::Object *schedule =
      root ? root->getObject("schedule") : nullptr;
  const llvm::json::Object *mesh = root ? root->getObject("mesh") : nullptr;
  if (schedule)
    t.microBatches = schedule->getInteger("micro_batches").value_or(1);
  if (mesh)
    t.dataParallel = mesh->getInteger("dp").value_or(1);
}

void kerf::tool::requireSchedule(const llvm::json::Value &plan,
                                 const Options &o) {
  const llvm::json::Object *root = plan.getAsObject();
  const llvm::json::Object *schedule =
      root ? root->getObject("schedule") : nullptr;
  if (!schedule)
    return; // whoever reads the plan says so
  int64_t planned = schedule->getInteger("micro_batches").value_or(1);
  for (auto [flag, wish] :
       {std::pair("--micro-batches", o.microBatches),
        {"--accumulate", o.accumulate > 1 ? o.accumulate : 0}})
    if (wish > 0 && wish != planned)
      throw Failure{kUsage,
                    std::string(flag) + " is " + std::to_string(wish) + ", " +
                        o.planFile + " has " + std::to_string(planned) +
                        " micro-batches",
                    {}};
  llvm::StringRef kind = schedule->getString("kind").value_or("none");
  if (o.schedule != "auto" && kind != o.schedule)
    throw Failure{kUsage,
                  "--schedule is " + o.schedule + ", that of " + o.planFile +
                      " is " + kind.str(),
                  {}};
  int64_t chunks = schedule->getInteger("chunks").value_or(1);
  if (o.chunks > 0 && o.chunks != chunks)
    throw Failure{kUsage,
                  "--chunks is " + std::to_string(o.chunks) + ", " +
                      o.planFile + " has " + std::to_string(chunks) +
                      " in each stage",
                  {}};
}

void kerf::tool::requireSame(const Options &o,
                             const CompilationOptions &options,
                             const char *flag, const char *key,
                             llvm::StringRef wish) {
  const llvm::json::Value &plan =
      options.givenPlan ? *options.givenPlan : *options.resume->plan;
  const llvm::json::Object *root = plan.getAsObject();
  if (options.givenPlan && root && root->getString("goal") &&
      (*root->getString("goal") == "train") != o.train)
    return; // whoever reads the plan says so
  std::optional<llvm::StringRef> planned =
      root ? root->getString(key) : std::nullopt;
  if (planned && *planned != wish)
    throw Failure{kUsage,
                  std::string(flag) + " is " + wish.str() + ", " +
                      options.givenPlanPath + " is for " + planned->str(),
                  {}};
}
