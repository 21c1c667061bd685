//===- OtherName.cpp - plans of another export of a model -----------------===//
//
// Problem: a weight that an embedding and a head share is stored once, under
// the name of one of them; which one is the exporter's choice (wte.weight,
// lm_head.weight). A plan of one export then names a weight that the other has
// not, and gradients and states that are called after it.
//
// Idea: if one such name for another makes of all names that only the plan has
// all those that only the model has, they are names of one weight. What the
// plan says of it is checked as ever.
//
//===----------------------------------------------------------------------===//
#include "OtherName.h"

#include "../Model/Graph.h"

#include "kerf/Dist/Dist.h"

#include <set>

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;
namespace json = llvm::json;

/// The name that is a part of all others; empty: none is.
static std::string partOfAll(const std::set<std::string> &names) {
  auto shortest = llvm::min_element(
      names, [](const auto &a, const auto &b) { return a.size() < b.size(); });
  return shortest != names.end() &&
                 llvm::all_of(names,
                              [&](const std::string &name) {
                                return name.find(*shortest) != name.npos;
                              })
             ? *shortest
             : "";
}

static std::string replaced(std::string name, const std::string &from,
                            const std::string &to) {
  if (size_t at = name.find(from); at != name.npos)
    name.replace(at, from.size(), to);
  return name;
}

/// Whether several ops of the model read a weight.
static bool isShared(Value value) {
  auto source = dyn_cast_or_null<SourceOpInterface>(value.getDefiningOp());
  return source && source.isParameter() &&
         llvm::count_if(value.getUsers(), [](Operation *user) {
           return dist::getPhase(user) == dist::Phase::Forward;
         }) > 1;
}

json::Value kerf::plan::withNamesOf(func::FuncOp function,
                                    const json::Value &plan) {
  const json::Object *root = plan.getAsObject();
  const json::Array *values = root ? root->getArray("values") : nullptr;
  if (!values)
    return plan;
  ValueNames names(function);
  std::set<std::string> planned, unknown, missing;
  for (const json::Value &value : *values) {
    const json::Object *entry = value.getAsObject();
    StringRef name = entry ? entry->getString("name").value_or("") : "";
    planned.insert(name.str());
    if (!names.find(name) && !name.starts_with("output:") &&
        !ValueNames::isOfConstant(name))
      unknown.insert(name.str());
  }
  if (unknown.empty())
    return plan;
  auto note = [&](Value value) {
    StringRef name = names[value];
    if (!planned.count(name.str()) && !ValueNames::isOfConstant(name))
      missing.insert(name.str());
  };
  for (Value argument : function.getArguments())
    note(argument);
  for (Operation &op : function.getBody().front())
    for (Value result : op.getResults())
      note(result);
  std::string from = partOfAll(unknown), to = partOfAll(missing);
  std::set<std::string> renamed;
  for (const std::string &name : unknown)
    renamed.insert(replaced(name, from, to));
  if (from.empty() || to.empty() || renamed != missing ||
      !isShared(names.find(to)))
    return plan;
  json::Object own = *root;
  for (json::Value &value : *own.getArray("values"))
    if (json::Object *entry = value.getAsObject())
      if (std::string name = entry->getString("name").value_or("").str();
          unknown.count(name))
        (*entry)["name"] = replaced(name, from, to);
  return own;
}
