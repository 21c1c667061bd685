//===- ShardingText.h - a sharding as plan.json has it ----------*- C++ -*-===//
#ifndef KERF_LIB_PLAN_REPORT_SHARDINGTEXT_H
#define KERF_LIB_PLAN_REPORT_SHARDINGTEXT_H

#include "../Zero/ZeroParts.h"

#include "mlir/IR/Attributes.h"
#include "llvm/Support/raw_ostream.h"

namespace kerf::plan {

/// {"tp"}, {}, as in IR.
inline std::string shardingText(mlir::Attribute attr) {
  std::string text;
  llvm::raw_string_ostream(text) << attr;
  llvm::StringRef view = text;
  view.consume_front("#dist.sharding<");
  view.consume_back(">");
  return view.str();
}

/// The pass of a micro-batch, as plan.json names it.
inline llvm::StringRef nameOf(StepPass pass) {
  return pass == StepPass::Forward ? "forward" : "backward";
}

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_REPORT_SHARDINGTEXT_H
