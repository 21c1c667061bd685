//===- WhatIf.cpp - kerf plan --what-if -----------------------------------===//
//
// Runs the same command again with other values of a few of its flags. Each is
// a compilation of its own, up to the layout of memory, so that a row says
// exactly what `kerf plan` with these flags would say.
//
//===----------------------------------------------------------------------===//
#include "../../SpellFlags.h"
#include "../Output.h"
#include "../Progress.h"
#include "../Setup.h"
#include "Explain.h"
#include "PlanReport.h"
#include "Report.h"
#include "Table.h"

#include "kerf/Format/ClosestName.h"
#include "kerf/Format/Schemas.h"
#include "kerf/Import/ModelImage.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <tuple>

using namespace kerf;
using namespace kerf::tool;
namespace json = llvm::json;

namespace {
/// One --what-if: its text, and the command with its changes.
struct Case {
  std::string text;
  Options options;
  std::string reason{}; ///< why it cannot be asked for with the other flags
};

/// Names of dimensions that a model leaves open.
struct OpenDims {
  std::vector<std::string> names;
  /// What all inputs begin with: one name, or why there is none.
  std::string batch, whyNoBatch;
};
} // namespace

static Failure wrong(const std::string &text, const std::string &why) {
  return {kUsage, "--what-if: '" + text + "': " + why, {}};
}
static Failure wrong(const std::string &why) { return {kUsage, why, {}}; }

static OpenDims openDims(const std::string &model) {
  OpenDims open;
  ModelFacts facts;
  std::string unread;
  if (!readModelFacts(model, facts, unread))
    return open; // the import says so
  std::vector<std::string> first;
  auto add = [](std::vector<std::string> &names, const std::string &name) {
    if (!llvm::is_contained(names, name))
      names.push_back(name);
  };
  bool isFixed = false;
  for (const ModelValue &input : facts.inputs)
    for (const ModelValue::Dim &dim : input.dims) {
      bool isFirst = &dim == &input.dims.front();
      if (!dim.symbol.empty())
        add(open.names, dim.symbol);
      if (isFirst && !dim.symbol.empty())
        add(first, dim.symbol);
      isFixed |= isFirst && dim.symbol.empty();
    }
  if (llvm::is_contained(open.names, "batch") ||
      (first.size() == 1 && !isFixed))
    open.batch = llvm::is_contained(open.names, "batch") ? "batch" : first[0];
  else if (first.empty())
    open.whyNoBatch = "the file fixes with what size inputs begin "
                      "(an export with dynamic_shapes leaves it open)";
  else
    open.whyNoBatch = "inputs do not begin with one open dimension";
  return open;
}

static void bindDim(Options &options, const std::string &name,
                    const std::string &size) {
  llvm::erase_if(options.dims, [&](const std::string &binding) {
    return llvm::StringRef(binding).rsplit('=').first == name;
  });
  options.dims.push_back(name + "=" + size);
}

/// A size that a dimension can have.
static void requireSize(const std::string &value) {
  int64_t size = 0;
  if (llvm::StringRef(value).getAsInteger(10, size) || size < 1)
    throw wrong("'" + value + "', expected a size of at least 1");
}

/// The dimension that a key means: `batch` may stand for another; else the key.
static std::string dimensionOf(llvm::StringRef key, const OpenDims &open) {
  return key == "batch" && !open.batch.empty() ? open.batch : key.str();
}

/// Makes one change. Throws what is wrong with it.
static void change(Options &options, const OpenDims &open,
                   const std::string &key, const std::string &value) {
  if (key == "memory") {
    if (parseBytes(value, "memory") == 0)
      throw wrong("memory: expected more than 0");
    options.memoryLimit = value;
  } else if (key == "devices") {
    // A number alone is of devices of the kind that was asked for.
    bool isNumber = llvm::all_of(value, llvm::isDigit) && !value.empty();
    bool isCuda = parseDevices(options.devices).kind == "cuda";
    int64_t count = isNumber ? parseDevices(value).count : 0;
    options.devices =
        isNumber && isCuda ? "cuda:0-" + std::to_string(count - 1) : value;
    parseDevices(options.devices);
    options.devicesGiven = true;
    options.devicesOfMachine = false;
  } else if (key == "machine") {
    options.machine = value;
    if (options.devicesOfMachine || !options.devicesGiven) {
      options.devicesGiven = options.devicesOfMachine = false;
      options.devices = "1";
      takeDevices(options);
    }
  } else if (llvm::is_contained(open.names, key) ||
             (key == "batch" && !open.batch.empty())) {
    requireSize(value);
    bindDim(options, dimensionOf(key, open), value);
  } else if (key == "batch") {
    throw wrong("batch: " + open.whyNoBatch);
  } else {
    std::vector<std::string> known = {"memory", "devices", "machine"};
    if (!open.batch.empty())
      known.push_back("batch");
    for (const std::string &name : open.names)
      if (name != "batch")
        known.push_back(name);
    std::string close = closestName(key, known);
    throw wrong(
        "no '" + key + "' can be changed, " +
        (close.empty() ? "" : "did you mean '" + close + "'? There are ") +
        (close.empty() ? "expected " : "") + llvm::join(known, ", "));
  }
}

/// All cases, checked before anything is planned.
static std::vector<Case> readCases(const Options &asked) {
  std::vector<Case> cases;
  OpenDims open = openDims(asked.model);
  for (const std::string &text : asked.whatIf) {
    Case &one = cases.emplace_back(Case{text, asked});
    one.options.output.clear();
    std::vector<std::pair<std::string, std::string>> changes;
    for (llvm::StringRef part : llvm::split(llvm::StringRef(text), ',')) {
      auto [key, value] = part.split('=');
      if (key.empty() || value.empty())
        throw wrong(text, "expected NAME=VALUE,NAME=VALUE, as in "
                          "memory=40GiB,devices=16");
      std::string meant = dimensionOf(key, open);
      if (llvm::any_of(changes, [&](const auto &other) {
            return dimensionOf(other.first, open) == meant;
          }))
        throw wrong(text, meant + " is there twice");
      changes.push_back({key.str(), value.str()});
    }
    // Devices that are said are not those of the machine.
    llvm::stable_sort(changes, [](const auto &a, const auto &b) {
      return (a.first == "devices") < (b.first == "devices");
    });
    bool isRead = false;
    try {
      for (const auto &[key, value] : changes)
        change(one.options, open, key, value);
      isRead = true;
      shapesAlone(one.options);
    } catch (Failure &failure) {
      // The machine may have another number of devices than this one.
      unsigned count = 0;
      if (!isRead || changes.back().first != "devices" ||
          llvm::StringRef(changes.back().second).getAsInteger(10, count) ||
          count == 0)
        throw wrong(text, failure.message);
      one.reason = failure.message;
    }
  }
  return cases;
}

namespace {
/// What became of a case.
struct Answer {
  std::string text;
  json::Object plan;  ///< plan.json; empty where there is none
  std::string reason; ///< why there is none
  std::vector<std::string> messages, notes;
  bool isInterrupted = false; ///< by a signal, before there was a plan
  bool isWithoutPlan = false; ///< a search has found none
  double limit = std::numeric_limits<double>::infinity(); ///< bytes a device
  std::string planOf{}; ///< the row whose plan this is; empty: its own
};
} // namespace

/// A copy with texts of its own, which those of a compilation are not.
static json::Value owned(const json::Value &value) {
  if (auto text = value.getAsString())
    return text->str();
  if (const json::Array *array = value.getAsArray()) {
    json::Array copy;
    for (const json::Value &each : *array)
      copy.push_back(owned(each));
    return copy;
  }
  const json::Object *object = value.getAsObject();
  if (!object)
    return value;
  json::Object copy;
  for (const auto &[key, each] : *object)
    copy[key.str()] = owned(each);
  return copy;
}

/// Whether a note says how candidates ended: of a search without a plan there
/// are too many for a table.
static bool isOfCandidates(llvm::StringRef note) {
  llvm::StringRef axis = note.take_while(llvm::isAlnum);
  return note.starts_with("one device") || note.starts_with("and ") ||
         (!axis.empty() && note.drop_front(axis.size()).starts_with("="));
}

static Answer planCase(const Case &one) {
  Answer answer;
  answer.text = one.text.empty() ? "as asked" : one.text;
  if (!one.reason.empty()) {
    answer.reason = one.reason;
    return answer;
  }
  CompilationOptions compile = shapesAlone(one.options);
  if (compile.plan.memoryLimitBytes)
    answer.limit = double(*compile.plan.memoryLimitBytes);
  else if (int64_t bytes = compile.plan.machine.memoryBytesPerDevice)
    answer.limit = double(bytes);
  Progress progress(one.options, compile);
  Compilation compilation(std::move(compile));
  Outcome outcome = compilation.runUntil("lower");
  if (std::optional<int64_t> limit = compilation.memoryLimit())
    answer.limit = double(*limit);
  // A change that cannot be planned is a row as well: the others go on, and
  // those that were planned are not lost where a signal ends the rest.
  bool isRow = outcome == Outcome::NoPlan || outcome == Outcome::Interrupted ||
               (!one.text.empty() && (outcome == Outcome::WrongUsage ||
                                      outcome == Outcome::ModelRefused));
  if (outcome != Outcome::Fine && !isRow)
    throw Failure{static_cast<int>(outcome), "", compilation.messages()};
  answer.messages = compilation.messages();
  answer.isInterrupted = outcome == Outcome::Interrupted;
  answer.isWithoutPlan = outcome == Outcome::NoPlan;
  if (outcome == Outcome::Fine) {
    answer.plan = std::move(
        *owned(json::Object(compilation.getPlanJson())).getAsObject());
    answer.notes = notesOf(compilation, one.options);
    progress.finish();
    return answer;
  }
  // "error: FILE: reason"
  llvm::StringRef reason = answer.messages.front();
  reason.consume_front("error: ");
  reason.consume_front(one.options.model + ": ");
  answer.reason = spellFlags(reason.str());
  for (llvm::StringRef line : answer.messages)
    if (line.consume_front("note: ") &&
        !(answer.isWithoutPlan && isOfCandidates(line)))
      answer.notes.push_back(spellFlags(line.str()));
  return answer;
}

/// Bytes of the device that holds most.
static double peakOf(const json::Object &plan) {
  double peak = 0;
  const json::Object *memory = plan.getObject("memory");
  if (const json::Array *devices =
          memory ? memory->getArray("per_device") : nullptr)
    for (const json::Value &device : *devices)
      peak = std::max(peak, numberAt(device.getAsObject(), {"peak"}));
  return peak;
}

static std::string scheduleText(const json::Object &plan) {
  const json::Object *schedule = plan.getObject("schedule");
  std::string kind = textAt(schedule, "kind");
  auto parts = int64_t(numberAt(schedule, {"micro_batches"}));
  // One stage has no order of micro-batches to choose.
  bool hasStages = numberAt(&plan, {"mesh", "pp"}) > 1;
  std::string text = kind == "none" || !hasStages ? "" : kind;
  if (parts > 1)
    text += (text.empty() ? "" : ", ") +
            plural(parts, "micro-batch", "micro-batches");
  if (const json::Array *blocks = plan.getArray("recompute");
      blocks && !blocks->empty())
    text += (text.empty() ? "" : ", ") +
            plural(int64_t(blocks->size()), "block") + " computed again";
  if (auto zero = int64_t(numberAt(&plan, {"zero"})))
    text += (text.empty() ? "" : ", ") + std::string("ZeRO ") +
            std::to_string(zero);
  return text.empty() ? "one batch" : text;
}

static Table::Row rowOf(const Answer &answer) {
  if (!answer.reason.empty())
    return {answer.text, "-", "", "", "", "", answer.reason};
  const json::Object &plan = answer.plan;
  const json::Object *objective = plan.getObject("objective");
  bool isBounded = numberAt(objective, {"lower_bound"}) > 0 ||
                   numberAt(objective, {"cost"}) <= 0;
  return {answer.text,
          meshText(plan.getObject("mesh")),
          scheduleText(plan),
          formatSeconds(numberAt(&plan, {"time", "step_seconds"})),
          formatBytes(numberAt(&plan, {"communication", "bytes_per_rank"})),
          formatBytes(peakOf(plan)),
          isBounded ? gapText(numberAt(objective, {"gap"})) : "unknown"};
}

/// A row in one line: "devices=4: 21.1 ms, x=4, one batch, ...".
static std::string lineOf(const Answer &answer) {
  Table::Row row = rowOf(answer);
  if (!answer.reason.empty())
    return answer.text + ": " + answer.reason;
  auto [text, mesh, schedule, time, sent, memory, gap] =
      std::tie(row[0], row[1], row[2], row[3], row[4], row[5], row[6]);
  return text + ": " + time + ", " + mesh + ", " + schedule + ", " + sent +
         " sent, " + memory + ", gap " + gap;
}

/// Everything but the limit on memory that a case can change.
static auto settingOf(const Options &options) {
  std::vector<std::string> dims = options.dims;
  llvm::sort(dims);
  return std::tuple(options.devices, options.machine, dims);
}

/// Puts the taken plan, the first of `from`, in front of the candidates of
/// `into`, in place of what the row's own search has found on that mesh.
static void putFirst(json::Array &into, const json::Array &from,
                     double lowerBound) {
  if (from.empty())
    return;
  json::Object taken = *from.front().getAsObject();
  auto isSame = [&](const json::Value &other) {
    return llvm::all_of(
        llvm::ArrayRef<llvm::StringRef>(
            {"mesh", "micro_batches", "chunks", "recompute_every", "zero"}),
        [&](llvm::StringRef key) {
          const json::Value *a = taken.get(key),
                            *b = other.getAsObject()->get(key);
          return a && b ? *a == *b : a == b;
        });
  };
  // Its bound is of another limit.
  taken["lower_bound"] = lowerBound;
  json::Array rest;
  for (json::Value &other : into)
    if (isSame(other)) {
      if (auto bound = other.getAsObject()->getNumber("lower_bound"))
        taken["lower_bound"] = *bound;
    } else {
      rest.push_back(std::move(other));
    }
  into = json::Array{std::move(taken)};
  for (json::Value &other : rest)
    into.push_back(std::move(other));
}

/// The plan of another row, which keeps the limit of this one, in place of what
/// this one's search has found: the bound and how it was searched stay its own.
static void takePlan(Answer &answer, const Answer &other) {
  json::Object plan = other.plan;
  json::Object &objective = *plan.getObject("objective");
  double cost = numberAt(&objective, {"cost"}), bound = 0;
  if (json::Object *own = answer.plan.getObject("objective")) {
    bound = numberAt(own, {"lower_bound"});
    objective = *own;
    objective["cost"] = cost;
    for (const char *key : {"pure_cuts", "planning_seconds"})
      if (const json::Value *value = answer.plan.get(key))
        plan[key] = *value;
  } else if (answer.limit <= other.limit) {
    bound = numberAt(&objective, {"lower_bound"});
  }
  objective["lower_bound"] = bound;
  objective["gap"] = cost > 0 ? std::max(0.0, 1 - bound / cost) : 0.0;
  json::Array candidates;
  if (json::Array *own = answer.plan.getArray("runners_up"))
    candidates = *own;
  if (const json::Array *others = plan.getArray("runners_up"))
    putFirst(candidates, *others, bound);
  plan["runners_up"] = std::move(candidates);
  json::Object &memory = *plan.getObject("memory");
  memory["limit"] = std::isinf(answer.limit)
                        ? json::Value(nullptr)
                        : json::Value(int64_t(answer.limit));
  memory.erase("rejected");
  answer.plan = std::move(plan);
  answer.reason.clear();
  answer.notes = other.notes;
  answer.planOf = other.text;
}

/// Limits on memory that a search keeps by halving promise no order: what was
/// found for one may keep another and cost less than what was found for that.
/// Every row takes the best plan of the table that it allows.
static void shareAmongLimits(const std::vector<Case> &cases,
                             std::vector<Answer> &answers) {
  auto costOf = [](const Answer &answer) {
    return numberAt(answer.plan.getObject("objective"), {"cost"});
  };
  auto isPlan = [](const Answer &answer) {
    const json::Object *objective = answer.plan.getObject("objective");
    return answer.reason.empty() && answer.planOf.empty() && objective &&
           objective->get("lower_bound") && answer.plan.getObject("memory");
  };
  // Rows that have taken another's are no source: whose it was is.
  std::vector<const Answer *> best(answers.size());
  for (auto [i, answer] : llvm::enumerate(answers)) {
    if (!isPlan(answer) && !answer.isWithoutPlan)
      continue;
    for (auto [j, other] : llvm::enumerate(answers))
      if (i != j && isPlan(other) && peakOf(other.plan) <= answer.limit &&
          settingOf(cases[i].options) == settingOf(cases[j].options) &&
          (best[i]          ? costOf(other) < costOf(*best[i])
           : isPlan(answer) ? costOf(other) < costOf(answer)
                            : true))
        best[i] = &other;
  }
  std::vector<Answer> own = answers;
  for (auto [i, answer] : llvm::enumerate(answers))
    if (best[i])
      takePlan(answer, own[best[i] - answers.data()]);
}

/// Whose plan a row has, where it is another's; empty: its own.
static std::string originOf(const Answer &answer) {
  return answer.planOf.empty()
             ? ""
             : answer.text + ": the plan of \"" + answer.planOf +
                   "\", which keeps this limit too; " +
                   (answer.isWithoutPlan
                        ? "its own search found none\n"
                        : "its own search found none as good\n");
}

/// What a plan by itself says of its candidates: that some were not searched,
/// and why; empty: all were.
static std::string caveatOf(const Answer &answer) {
  int64_t count = 0;
  std::string reason;
  const json::Array *all = answer.plan.getArray("runners_up");
  for (const json::Value &each : all ? *all : json::Array())
    if (std::string why = textAt(each.getAsObject(), "reason");
        llvm::StringRef(why).starts_with("not searched")) {
      ++count;
      reason = why;
    }
  return count == 0 ? ""
                    : answer.text + ": " + plural(count, "candidate") + " " +
                          reason + "\n";
}

static json::Object rowObject(const Case &one, const Answer &answer) {
  json::Object row{{"what_if", one.text}};
  if (!answer.reason.empty()) {
    row["reason"] = answer.reason;
    if (!answer.notes.empty())
      row["notes"] = json::Array(answer.notes);
    return row;
  }
  for (const char *key : {"devices", "mesh", "mesh_axes", "schedule", "zero",
                          "recompute", "objective", "time"})
    if (const json::Value *value = answer.plan.get(key))
      row[key] = *value;
  if (const json::Object *sent = answer.plan.getObject("communication"))
    for (const char *key : {"bytes_per_rank", "total_bytes"})
      if (const json::Value *value = sent->get(key))
        row[key] = *value;
  row["peak_memory_bytes"] = static_cast<int64_t>(peakOf(answer.plan));
  if (!answer.planOf.empty())
    row["plan_of"] = answer.planOf;
  if (!answer.notes.empty())
    row["notes"] = json::Array(answer.notes);
  return row;
}

/// What is noted on the rows that have a plan; a note of several stands once.
static std::string rowNotes(const std::vector<Answer> &answers) {
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  for (const Answer &answer : answers)
    if (answer.reason.empty())
      for (const std::string &note : answer.notes) {
        auto known = llvm::find_if(
            rows, [&](const auto &row) { return row.first == note; });
        if (known == rows.end())
          known = rows.insert(rows.end(), {note, {}});
        known->second.push_back("\"" + answer.text + "\"");
      }
  std::string lines;
  for (auto &[note, names] : rows) {
    std::string last = names.back();
    names.pop_back();
    lines += "note: " +
             rt::printable((names.empty()
                                ? "row "
                                : "rows " + llvm::join(names, ", ") + " and ") +
                           last + ": " + note) +
             "\n";
  }
  return lines;
}

int kerf::tool::planWhatIf(const Options &options) {
  std::vector<Case> cases = readCases(options);
  cases.insert(cases.begin(), Case{"", options});
  std::vector<Answer> answers;
  answers.reserve(cases.size());
  // Where the table takes long, each row is noted as soon as it is known, also
  // those that were before it took long: while the next is planned.
  auto begin = std::chrono::steady_clock::now();
  size_t noted = 0;
  auto rowsToNote = [&]() -> std::string {
    std::chrono::duration<double> passed =
        std::chrono::steady_clock::now() - begin;
    bool isLast = answers.size() == cases.size(); // the table follows
    if (options.quiet || isLast || passed.count() < secondsToNote(options))
      return "";
    std::string lines;
    for (; noted < answers.size(); ++noted)
      lines += "note: " + rt::printable(lineOf(answers[noted])) + "\n";
    return lines;
  };
  const Answer &asked = answers.emplace_back(planCase(cases.front()));
  auto writeAsked = [&] {
    if (!options.output.empty() && asked.reason.empty())
      writeFile(options.output,
                llvm::formatv("{0:2}\n", json::Value(json::Object(asked.plan)))
                    .str());
  };
  writeAsked();
  for (auto [number, one] : llvm::enumerate(cases))
    if (number > 0) {
      one.options.row = llvm::formatv("row {0} of {1} ({2})", number,
                                      cases.size() - 1, one.text)
                            .str();
      one.options.meanwhile = rowsToNote;
      rt::say(stderr, rowsToNote());
      answers.push_back(planCase(one));
    }
  shareAmongLimits(cases, answers);
  if (!asked.planOf.empty())
    writeAsked();
  if (options.json) {
    json::Array rows;
    for (const auto &[one, answer] : llvm::zip(cases, answers))
      rows.push_back(rowObject(one, answer));
    llvm::outs() << llvm::formatv(
        "{0:2}\n", json::Value(json::Object{{"schema", whatIfSchema.text()},
                                            {"plans", std::move(rows)}}));
  } else if (!options.quiet) {
    Table table({"", "mesh", "schedule", "time", "sent", "memory", "gap"});
    for (const Answer &answer : answers)
      table.add(rowOf(answer));
    PrintableStream out(llvm::outs());
    table.print(out);
    out << "\ntime: predicted for a step; sent: by the busiest rank in a step; "
           "memory: laid out on the fullest device; gap: to the proven bound\n";
    for (const Answer &answer : answers) {
      if (!answer.reason.empty())
        for (const std::string &note : answer.notes)
          out << answer.text << ": " << note << "\n";
      out << originOf(answer) << caveatOf(answer);
    }
  }
  llvm::outs().flush();
  if (!options.quiet)
    rt::say(stderr, rowNotes(answers));
  if (llvm::any_of(answers,
                   [](const Answer &answer) { return answer.isInterrupted; }))
    return static_cast<int>(Outcome::Interrupted);
  if (asked.reason.empty())
    return kFine;
  throw Failure{kNoPlan, "", asked.messages};
}
