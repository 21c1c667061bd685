//===- PlanDecision.cpp - a plan in three sentences -----------------------===//
//
// Which cut, why, and what the next best would have cost: what somebody reads
// who reads no table.
//
//===----------------------------------------------------------------------===//
#include "../Options.h"
#include "../Output.h"
#include "PlanReport.h"
#include "Report.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <optional>

using namespace kerf::tool;
namespace json = llvm::json;

llvm::StringSet<> kerf::tool::parametersOf(const json::Object &plan) {
  llvm::StringSet<> names;
  const json::Object *model = plan.getObject("model");
  const json::Array *list =
      model ? model->getArray("parameter_names") : nullptr;
  for (const json::Value &each : list ? *list : json::Array())
    names.insert(each.getAsString().value_or(""));
  return names;
}

namespace {
/// What an axis cuts, of how many, and the first. Parts of one thing are one,
/// which is cut where any of them is.
struct Count {
  int64_t cut = 0, all = 0;
  std::string example;
  llvm::StringMap<bool> things{};
  void add(bool isCut, const std::string &name, llvm::StringRef thing) {
    auto [known, isNew] = things.try_emplace(thing, false);
    all += isNew;
    if (!isCut || known->second)
      return;
    known->second = true;
    if (cut++ == 0)
      example = name;
  }
  std::string text(const std::string &what) const {
    return " cuts " + std::to_string(cut) + " of " + std::to_string(all) + " " +
           what + " (" + example + (cut > 1 ? ", ...)" : ")");
  }
};

struct Use {
  Count parameters, computed; ///< values that are computed, scalars apart
  bool cutsInput = false, cutsOther = false;

  /// Whether devices have different data, all the way or most of it: not where
  /// an axis cuts a few values somewhere in the middle of the model.
  bool cutsData() const {
    return cutsInput && 2 * computed.cut >= computed.all;
  }
};
} // namespace

/// "{}, {"tp"}, {}" has the axis at dimension 1; none: the value is not cut, or
/// each device has a summand of it.
static std::optional<size_t> dimCutBy(llvm::StringRef sharding,
                                      const std::string &axis) {
  size_t at = sharding.find("\"" + axis + "\"");
  llvm::StringRef before = sharding.take_front(at);
  if (at == llvm::StringRef::npos || before.contains("partial"))
    return std::nullopt;
  return before.count('{') - 1;
}

static Use useOf(const json::Object &plan, const std::string &axis) {
  Use use;
  llvm::StringSet<> parameters = parametersOf(plan), inputs;
  const json::Object *model = plan.getObject("model");
  const json::Array *list = model ? model->getArray("inputs") : nullptr;
  for (const json::Value &each : list ? *list : json::Array())
    inputs.insert(each.getAsString().value_or(""));
  const json::Array *values = plan.getArray("values");
  for (const json::Value &each : values ? *values : json::Array()) {
    const json::Object *value = each.getAsObject();
    if (!value)
      continue;
    std::string name = textAt(value, "name"),
                sharding = textAt(value, "sharding");
    bool isCut = sharding.find("\"" + axis + "\"") != std::string::npos;
    if (parameters.contains(name)) {
      auto [whole, number] = llvm::StringRef(name).rsplit('#');
      use.parameters.add(isCut, name,
                         parameters.contains(whole) ? whole : name);
      continue;
    }
    use.cutsOther |= isCut;
    use.cutsInput |= isCut && inputs.contains(name);
    if (sharding.empty() || !value->getObject("operands"))
      continue;
    if (std::optional<size_t> dim = dimCutBy(sharding, axis)) {
      name += " along dimension " + std::to_string(*dim);
      const json::Array *shape = value->getArray("shape");
      if (shape && *dim < shape->size())
        name +=
            ", of " + std::to_string((*shape)[*dim].getAsInteger().value_or(0));
    }
    use.computed.add(isCut, name, name);
  }
  return use;
}

static std::string cutText(const json::Object &plan) {
  const json::Object *mesh = plan.getObject("mesh");
  const json::Array *names = plan.getArray("mesh_axes");
  std::string text;
  std::vector<std::pair<std::string, Use>> axes;
  for (const json::Value &each : names ? *names : json::Array()) {
    std::string axis = each.getAsString().value_or("").str();
    if (numberAt(mesh, {axis}) >= 2)
      axes.emplace_back(axis, axis == "pp" ? Use() : useOf(plan, axis));
  }
  // Where stages or another axis divide them, no device has all.
  bool areDivided = llvm::any_of(axes, [](const auto &axis) {
    return axis.first == "pp" || axis.second.parameters.cut > 0;
  });
  std::string has = areDivided ? "every device of it has the same parameters"
                               : "every device of it has all parameters";
  for (const auto &[axis, use] : axes) {
    auto size = int64_t(numberAt(mesh, {axis}));
    text += (text.empty() ? "" : "; ") + axis;
    if (axis == "pp") {
      text += " cuts the model into " + std::to_string(size) +
              " stages, one after the other";
      continue;
    }
    if (use.parameters.cut > 0) {
      std::string parameters = use.parameters.text("parameters");
      constexpr llvm::StringLiteral verb = " cuts ";
      text += use.cutsData()
                  ? " cuts the data and " + parameters.substr(verb.size())
                  : parameters;
    } else if (!use.cutsOther)
      text += " cuts nothing: all its devices compute the same";
    else if (use.cutsData() || use.computed.cut == 0)
      text += " cuts the data, and " + has;
    else
      text += use.computed.text("values that are computed") +
              ", all its devices compute the rest, and " + has;
  }
  return text.empty() ? "nothing is cut" : text;
}

/// Whether several devices all compute the same, since that takes least: dp
/// cuts the batch wherever that can be, so no more is saved or lost by it.
static bool isWholeForTime(const json::Object &plan) {
  const json::Object *mesh = plan.getObject("mesh"),
                     *objective = plan.getObject("objective");
  if (!mesh || !objective || textAt(objective, "kind") != "time" ||
      textAt(objective, "solver") == "random" ||
      llvm::none_of(*mesh, [](const auto &axis) {
        return axis.second.getAsInteger().value_or(1) > 1 &&
               axis.first.str() != "dp";
      }))
    return false;
  return llvm::none_of(*mesh, [&](const auto &axis) {
    Use use = useOf(plan, axis.first.str());
    return use.parameters.cut > 0 || use.cutsOther;
  });
}

static std::string whyText(const json::Object &plan) {
  const json::Object *time = plan.getObject("time");
  const json::Object *communication = plan.getObject("communication");
  if (!time)
    return "the plan was given, and no other was looked at";
  std::string text = "of " + formatSeconds(numberAt(time, {"step_seconds"})) +
                     " predicted for a step, " +
                     stepText(time, "idle, while stages wait for each other");
  if (!communication)
    return text;
  double sent = numberAt(communication, {"bytes_per_rank"});
  text += "; the busiest rank sends " + formatBytes(sent);
  if (sent == 0 && isWholeForTime(plan))
    text += numberAt(plan.getObject("objective"), {"gap"}) > 0
                ? ": no cut was found that saves more than sending takes"
                : ": what any cut saves is less than what sending takes";
  return text;
}

bool kerf::tool::areAlike(const json::Object &a, const json::Object &b) {
  auto stagesOf = [](const json::Object &candidate) {
    return numberAt(&candidate, {"mesh", "pp"});
  };
  return !a.get("reason") && !b.get("reason") && stagesOf(a) == stagesOf(b) &&
         llvm::all_of(
             std::initializer_list<const char *>{
                 "micro_batches", "recompute_every", "zero", "cost",
                 "step_seconds", "bytes_per_rank", "total_bytes",
                 "peak_memory_bytes"},
             [&](const char *key) {
               return numberAt(&a, {key}) == numberAt(&b, {key});
             });
}

/// What can be said where no other candidate has a plan. The first of the list
/// is the plan itself.
static std::string noOtherText(const json::Array &list) {
  std::string mesh = meshText(list[0].getAsObject()->getObject("mesh"));
  bool hasOther = false, isProven = true, isAgain = false, isInParts = false;
  for (const json::Value &each : llvm::drop_begin(list)) {
    const json::Object *c = each.getAsObject();
    hasOther |= meshText(c->getObject("mesh")) != mesh;
    isProven &= textAt(c, "status") == "infeasible";
    isAgain |= c->get("recompute_every") != nullptr;
    isInParts |= c->get("zero") != nullptr;
  }
  return std::string(isProven ? "there is no plan " : "no plan is known ") +
         (hasOther ? "of another mesh"
                   : std::string("with another number of micro-batches") +
                         (isAgain ? " or of blocks computed again" : "") +
                         (isInParts ? " or with more in parts" : "") +
                         ", and no other mesh was looked at");
}

/// The next best that is not the same cut, and what it costs more.
static std::string elseText(const json::Object &plan) {
  const json::Array &list = *plan.getArray("runners_up");
  if (list.size() < 2)
    return "no other mesh was looked at";
  bool isVolume = textAt(plan.getObject("objective"), "kind") == "volume";
  const json::Object &chosen = *list[0].getAsObject();
  double best = numberAt(&chosen, {"cost"});
  std::string same; // of other axes
  for (const json::Value &each : llvm::drop_begin(list)) {
    const json::Object &c = *each.getAsObject();
    if (c.get("reason"))
      continue;
    if (areAlike(chosen, c)) {
      std::string mesh = meshText(c.getObject("mesh"));
      if (mesh != meshText(chosen.getObject("mesh")))
        same += (same.empty() ? "" : ", ") + mesh;
      continue;
    }
    double cost = numberAt(&c, {"cost"});
    // It is not laid out: predictions may be too high.
    double peak = numberAt(&c, {"peak_memory_bytes"});
    double limit = numberAt(&plan, {"memory", "limit"});
    std::string fits = limit > 0 && peak > limit
                           ? ", if it fits: it is predicted to need " +
                                 formatBytesBeside(peak, limit) + " per device"
                           : "";
    std::string text = "the runner-up, " + candidateText(c) + ", would ";
    std::string times =
        best > 0 ? llvm::formatv("{0:F2}", cost / best).str() : "";
    if (cost == best || times == "1.00")
      return text + (isVolume ? "send as much" : "take as long") + fits;
    text +=
        isVolume ? "send " + formatBytes(cost) : "take " + formatSeconds(cost);
    if (!times.empty())
      text += ", " + times + " times as " + (isVolume ? "much" : "long");
    return text + fits;
  }
  return same.empty() ? noOtherText(list)
                      : same + ": the same plan; none is known that differs";
}

std::string kerf::tool::candidateText(const json::Object &candidate) {
  std::string text = meshText(candidate.getObject("mesh"));
  auto parts = int64_t(numberAt(&candidate, {"micro_batches"}));
  if (parts > 1)
    text += ", " + std::to_string(parts) + " micro-batches";
  auto chunks = int64_t(numberAt(&candidate, {"chunks"}));
  if (chunks > 1)
    text += ", " + std::to_string(chunks) + " chunks";
  auto every = int64_t(numberAt(&candidate, {"recompute_every"}));
  if (every == 1)
    text += ", all blocks computed again";
  else if (every > 1)
    text += ", one of " + std::to_string(every) + " blocks computed again";
  auto zero = int64_t(numberAt(&candidate, {"zero"}));
  if (zero > 0)
    text += ", ZeRO " + std::to_string(zero);
  return text;
}

/// What lies in parts over devices of equal data.
static std::string inPartsText(const json::Object &plan) {
  const json::Array *parts = plan.getArray("in_parts");
  if (!parts || parts->empty())
    return "";
  std::vector<std::string> names;
  for (const json::Value &name : *parts)
    names.push_back(name.getAsString().value_or("").str());
  std::string last = names.back();
  names.pop_back();
  return std::to_string(int64_t(numberAt(&plan, {"zero"}))) + ": " +
         llvm::join(names, ", ") + (names.empty() ? "" : " and ") + last +
         " in parts over dp";
}

/// Blocks that are computed again, what that takes, and what need not be held.
static std::string recomputedText(const json::Object &plan, bool verbose) {
  const json::Array *blocks = plan.getArray("recompute");
  if (!blocks || blocks->empty())
    return "";
  double seconds = 0, bytes = 0;
  bool isPriced = true;
  std::vector<std::string> names;
  for (const json::Value &value : *blocks) {
    const json::Object *block = value.getAsObject();
    seconds += numberAt(block, {"seconds"});
    bytes += numberAt(block, {"bytes"});
    isPriced &= block && block->getNumber("seconds").has_value();
    std::string first = textAt(block, "first"), last = textAt(block, "last");
    if (!verbose) {
      first = shortName(first);
      last = shortName(last);
    }
    names.push_back(first == last ? first : first + " to " + last);
  }
  std::string text = plural(int64_t(blocks->size()), "block");
  if (isPriced)
    text += ", " + formatSeconds(seconds) +
            " of a step, instead of holding up to " + formatBytes(bytes) +
            " of each micro-batch";
  return text + ": " +
         (verbose || names.size() <= 2
              ? llvm::join(names, "; ")
              : names.front() + "; ...; " + names.back());
}

std::vector<std::pair<std::string, std::string>>
kerf::tool::decisionLines(const json::Object &plan, bool verbose) {
  std::vector<std::pair<std::string, std::string>> lines = {
      {"cut", cutText(plan)}, {"why", whyText(plan)}};
  if (plan.getArray("runners_up"))
    lines.push_back({"else", elseText(plan)});
  if (std::string text = inPartsText(plan); !text.empty())
    lines.push_back({"zero", text});
  if (std::string text = recomputedText(plan, verbose); !text.empty())
    lines.push_back({"recompute", text});
  return lines;
}

CandidateTable kerf::tool::candidateTable(const json::Object &plan) {
  const json::Array *list = plan.getArray("runners_up");
  CandidateTable table;
  if (!list || list->size() < 2)
    return table;
  double limit = numberAt(&plan, {"memory", "limit"});
  bool isVolume = textAt(plan.getObject("objective"), "kind") == "volume";
  // Cuts that are the same under other names of axes are one row.
  std::vector<std::vector<const json::Object *>> rows;
  for (const json::Value &value : *list) {
    const json::Object *c = value.getAsObject();
    if (std::optional<llvm::StringRef> reason = c->getString("reason")) {
      std::string name = candidateText(*c);
      if (double bytes = numberAt(c, {"peak_memory_bytes"}))
        name += " (" + formatBytes(bytes) + ")";
      auto known = llvm::find_if(table.reasons, [&](const auto &entry) {
        return entry.first == *reason;
      });
      if (known == table.reasons.end())
        known = table.reasons.insert(known, {reason->str(), {}});
      known->second.push_back(name);
      continue;
    }
    auto alike = llvm::find_if(
        rows, [&](const auto &row) { return areAlike(*row.front(), *c); });
    if (alike == rows.end())
      alike = rows.emplace(alike);
    alike->push_back(c);
  }
  for (const auto &row : rows) {
    const json::Object *c = row.front();
    double cost = numberAt(c, {"cost"}),
           peak = numberAt(c, {"peak_memory_bytes"});
    CandidateRow figures{candidateText(*c),
                         isVolume ? formatBytes(cost) : formatSeconds(cost),
                         formatSeconds(numberAt(c, {"step_seconds"})),
                         formatBytes(numberAt(c, {"bytes_per_rank"})),
                         formatBytesBeside(peak, limit),
                         {}};
    // The first is the plan, which keeps the limit as it is laid out.
    if (limit > 0 && peak > limit)
      figures.remarks.push_back(&row == &rows.front()
                                    ? "above the limit, laid out within it"
                                    : "above the limit");
    std::vector<std::string> others;
    for (const json::Object *other : llvm::drop_begin(row))
      others.push_back(meshText(other->getObject("mesh")));
    if (!others.empty())
      figures.remarks.push_back("the same: " + llvm::join(others, "; "));
    table.rows.push_back(std::move(figures));
  }
  return table;
}

std::string kerf::tool::scheduleInWords(const json::Object &plan) {
  auto chunks = int64_t(numberAt(&plan, {"schedule", "chunks"}));
  return chunks > 1 ? "interleaved 1F1B, " + std::to_string(chunks) +
                          " chunks per stage"
                    : textAt(plan.getObject("schedule"), "kind");
}

bool kerf::tool::isLaidOut(const json::Object &plan) {
  const json::Object *memory = plan.getObject("memory");
  const json::Array *devices =
      memory ? memory->getArray("per_device") : nullptr;
  return devices && llvm::any_of(*devices, [](const json::Value &device) {
           return device.getAsObject()->get("predicted");
         });
}

std::string kerf::tool::searchedText(const json::Object &plan, bool verbose) {
  std::string text, set = textAt(plan.getObject("objective"), "candidates");
  if (std::optional<double> seconds = plan.getNumber("planning_seconds"))
    text = "planned in " + formatSeconds(*seconds) + "; ";
  return text + (verbose ? set : set.substr(0, set.find(" (")));
}
