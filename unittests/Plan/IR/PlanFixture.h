//===- PlanFixture.h - a context and options for planning tests -*- C++ -*-===//
#ifndef KERF_UNITTESTS_PLAN_IR_PLANFIXTURE_H
#define KERF_UNITTESTS_PLAN_IR_PLANFIXTURE_H

#include "../../Support/Seeds.h"

#include "kerf/Plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

namespace kerf::testing {

/// Plans on an 8-GPU preset of as many devices as asked for.
class PlanFixture : public ::testing::Test {
protected:
  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text) {
    return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }
  static plan::PlanOptions options(int64_t devices) {
    plan::PlanOptions result;
    result.devices = devices;
    cost::HostInfo host;
    auto machine = cost::machinePreset("h100-8", devices, host);
    EXPECT_TRUE(bool(machine));
    result.machine = std::move(*machine);
    return result;
  }
  static std::string print(mlir::ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream(text) << module;
    return text;
  }

  /// What plan.json says of a planned module, as far as it is read back.
  static llvm::json::Value document(mlir::ModuleOp module,
                                    const plan::PlanResult &result) {
    llvm::json::Object mesh;
    llvm::json::Array axes;
    int64_t devices = 1;
    for (auto &[name, size] : result.mesh) {
      mesh[name] = size;
      axes.push_back(name);
      devices *= size;
    }
    llvm::json::Object schedule{{"kind", cost::toString(result.schedule).str()},
                                {"micro_batches", result.microBatches}};
    if (result.chunks > 1)
      schedule["chunks"] = result.chunks;
    return llvm::json::Object{
        {"schema", "kerf.plan/1"},
        {"devices", devices},
        {"mesh", std::move(mesh)},
        {"mesh_axes", std::move(axes)},
        {"schedule", std::move(schedule)},
        {"zero", static_cast<int64_t>(result.zero)},
        {"values", plan::valuesToJson(module, result.zero)}};
  }

private:
  test::LoadedContext loaded;

protected:
  mlir::MLIRContext &context = loaded.context;
};

} // namespace kerf::testing

#endif // KERF_UNITTESTS_PLAN_IR_PLANFIXTURE_H
