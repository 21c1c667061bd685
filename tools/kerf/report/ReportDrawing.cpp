//===- ReportDrawing.cpp - drawings of a plan, or a run -------------------===//
#include "ReportDrawing.h"

#include "../Options.h"
#include "Report.h"

#include "kerf/rt/printable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

using namespace kerf::tool;
namespace json = llvm::json;

const char *const kerf::tool::kDrawingStyle = R"(
svg { width: 100%; height: auto; display: block; } svg text { font: 11px system-ui, sans-serif; fill: #1b1f24; }
svg .a { fill: #2f6db3; } svg .b { fill: #d98a2b; } svg .c { fill: #4c9a5f; } svg .d { fill: #9a5fb0; } svg .e { fill: #a9b3bd; }
svg .f { fill: #c2554d; } svg .g { fill: #3a9aa8; } svg .h { fill: #8a6d3b; } svg .line { stroke: #1b1f24; stroke-width: .5; }
svg text.on { fill: #fff; text-anchor: middle; } .key .f { background: #c2554d; } .key .g { background: #3a9aa8; } .key .h { background: #8a6d3b; })";

/// Units of a picture, which is as wide as the page.
static constexpr double kWidth = 1000;
/// More than that cannot be told apart.
static constexpr int64_t kMaxDevices = 512;
static constexpr size_t kMaxRows = 64, kMaxBoxes = 4000;
static const char *const kClasses[] = {"a", "b", "c", "d", "f", "g", "h"};
/// What is left over.
static const char *const kRest = "e";

std::string kerf::tool::escapeHtml(llvm::StringRef raw) {
  std::string text = kerf::rt::printable(raw.str()), result;
  for (char c : text)
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    default:
      result += c;
    }
  return result;
}

static const json::Array &listOf(const json::Object *object,
                                 llvm::StringRef key) {
  static const json::Array none;
  const json::Array *list = object ? object->getArray(key) : nullptr;
  return list ? *list : none;
}

namespace {
/// One picture; closes itself.
class Picture {
public:
  Picture(llvm::raw_ostream &out, double height, llvm::StringRef label)
      : out(out) {
    out << llvm::formatv("<svg viewBox=\"0 0 {0:F0} {1:F0}\" role=img "
                         "aria-label=\"{2}\">\n",
                         kWidth, height, escapeHtml(label));
  }
  ~Picture() { out << "</svg>\n"; }
  void box(double x, double y, double width, double height,
           llvm::StringRef kind, llvm::StringRef title) {
    out << llvm::formatv("<rect class={0} x=\"{1:F2}\" y=\"{2:F2}\" "
                         "width=\"{3:F2}\" height=\"{4:F2}\">",
                         kind, x, y, width, height)
        << "<title>" << escapeHtml(title) << "</title></rect>\n";
  }
  /// A closed shape through points.
  void shape(llvm::ArrayRef<std::pair<double, double>> points,
             llvm::StringRef kind, llvm::StringRef title) {
    out << "<polygon class=" << kind << " points=\"";
    for (auto [x, y] : points)
      out << llvm::formatv("{0:F2},{1:F2} ", x, y);
    out << "\"><title>" << escapeHtml(title) << "</title></polygon>\n";
  }
  void text(double x, double y, llvm::StringRef what,
            llvm::StringRef kind = "") {
    out << llvm::formatv("<text{0} x=\"{1:F2}\" y=\"{2:F2}\">",
                         kind.empty() ? "" : (" class=" + kind).str(), x, y)
        << escapeHtml(what) << "</text>\n";
  }

private:
  llvm::raw_ostream &out;
};
} // namespace

static void
printKey(llvm::raw_ostream &out,
         llvm::ArrayRef<std::pair<std::string, std::string>> kindsAndTexts) {
  out << "<p class=key>";
  for (const auto &[kind, text] : kindsAndTexts)
    out << "<span class=" << kind << "></span>" << escapeHtml(text);
  out << "</p>\n";
}

/// In place of a picture that would show too much.
static void printNotDrawn(llvm::raw_ostream &out, llvm::StringRef what,
                          int64_t most, llvm::StringRef things) {
  out << "<p>" << what << ": not drawn, since a picture shows at most " << most
      << ' ' << things << ".</p>\n";
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

void kerf::tool::drawDevices(llvm::raw_ostream &out, const json::Object &root) {
  const json::Object *mesh = root.getObject("mesh");
  std::vector<std::pair<std::string, int64_t>> axes; // without stages
  int64_t stages = 1, inside = 1;
  for (const json::Value &name : listOf(&root, "mesh_axes")) {
    std::string axis = name.getAsString().value_or("").str();
    int64_t size = std::clamp<int64_t>(int64_t(numberAt(mesh, {axis})), 1,
                                       kMaxDevices + 1);
    if (axis == "pp")
      stages = size;
    else if (size > 1) {
      axes.push_back({axis, size});
      inside = std::min(inside * size, kMaxDevices + 1);
    }
  }
  if (stages * inside < 2)
    return;
  if (stages * inside > kMaxDevices)
    return printNotDrawn(out, "Devices", kMaxDevices, "of them");
  // The last axis runs to the right, in several lines if it is long; all others
  // downwards.
  constexpr int64_t kMaxColumns = 64;
  int64_t last = axes.empty() ? 1 : axes.back().second;
  int64_t linesOfAxis = (last + kMaxColumns - 1) / kMaxColumns;
  int64_t columns = (last + linesOfAxis - 1) / linesOfAxis;
  int64_t rows = inside / last * linesOfAxis;
  constexpr double kGap = 14, kHead = 30, kMaxCell = 46;
  int64_t inRow = std::min<int64_t>(
      stages,
      std::max<int64_t>(1, int64_t(kWidth / (double(columns) * 24 + kGap))));
  double cell =
      std::min(kMaxCell, (kWidth / double(inRow) - kGap) / double(columns));
  constexpr double kMaxHeight = 600, kMinCellHeight = 3;
  double cellHeight =
      std::min(0.6 * cell, std::max(kMaxHeight / double(rows), kMinCellHeight));
  double blockHeight = kHead + double(rows) * cellHeight;
  std::string across = axes.empty() ? "" : axes.back().first, down;
  for (const auto &axis : llvm::ArrayRef(axes).drop_back(!axes.empty()))
    down += (down.empty() ? "" : " x ") + axis.first;
  out << "<h2>Devices: " << escapeHtml(meshText(mesh)) << "</h2>\n<p>"
      << (stages > 1 ? "A block is a stage (pp), a cell a device"
                     : "A cell is a device");
  if (!across.empty())
    out << "; along a row " << escapeHtml(across);
  if (!down.empty())
    out << ", down " << escapeHtml(down);
  out << ".</p>\n";
  int64_t blockRows = (stages + inRow - 1) / inRow;
  Picture picture(out, double(blockRows) * (blockHeight + kGap), "devices");
  for (int64_t stage = 0; stage < stages; ++stage) {
    double left = double(stage % inRow) * (double(columns) * cell + kGap);
    double top = double(stage / inRow) * (blockHeight + kGap);
    if (stages > 1)
      picture.text(left, top + 12, "stage " + std::to_string(stage));
    for (int64_t device = 0; device < inside; ++device) {
      std::string title = "device " + std::to_string(stage * inside + device);
      if (stages > 1)
        title += ", stage " + std::to_string(stage);
      int64_t rest = device, below = inside;
      for (const auto &[axis, size] : axes) {
        below /= size;
        title += ", " + axis + " " + std::to_string(rest / below);
        rest %= below;
      }
      int64_t along = device % last;
      int64_t line = device / last * linesOfAxis + along / columns;
      double space = std::min(2.0, 0.2 * cellHeight);
      picture.box(left + double(along % columns) * cell,
                  top + 20 + double(line) * cellHeight, cell - space,
                  cellHeight - space, kClasses[stage % std::size(kClasses)],
                  title);
    }
  }
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

namespace {
/// Values side by side that are alike.
struct Run {
  std::string what;
  size_t begin, end;
  std::string first, last;
};
} // namespace

static std::vector<Run>
runsOf(const json::Array &values,
       llvm::function_ref<std::string(const json::Object *)> whatOf) {
  std::vector<Run> runs;
  for (auto [number, value] : llvm::enumerate(values)) {
    const json::Object *entry = value.getAsObject();
    std::string what = whatOf(entry), name = textAt(entry, "name");
    if (runs.empty() || runs.back().what != what)
      runs.push_back({what, number, number, name, name});
    runs.back().end = number + 1;
    runs.back().last = name;
  }
  return runs;
}

void kerf::tool::drawValues(llvm::raw_ostream &out, const json::Object &plan) {
  const json::Array &values = listOf(&plan, "values");
  if (values.size() < 2)
    return;
  double unit = kWidth / double(values.size());
  auto titleOf = [](const Run &run) {
    return run.what + ": " + run.first +
           (run.end - run.begin > 1 ? " to " + run.last : "");
  };
  auto shardings = runsOf(values, [](const json::Object *value) {
    std::string text = textAt(value, "sharding");
    return text.empty() ? std::string("scalar") : text;
  });
  auto stages = runsOf(values, [](const json::Object *value) {
    std::optional<int64_t> stage =
        value ? value->getInteger("stage") : std::nullopt;
    return stage ? "stage " + std::to_string(*stage) : std::string();
  });
  bool isStaged = stages.size() > 1;
  if (shardings.size() > kMaxBoxes)
    return printNotDrawn(out, "Values", kMaxBoxes, "runs of alike ones");
  // Colours for what is most frequent.
  std::map<std::string, size_t> counts;
  for (const Run &run : shardings)
    counts[run.what] += run.end - run.begin;
  std::vector<std::pair<std::string, size_t>> byCount(counts.begin(),
                                                      counts.end());
  llvm::stable_sort(byCount, [](const auto &a, const auto &b) {
    return a.second > b.second;
  });
  std::map<std::string, std::string> colours;
  std::vector<std::pair<std::string, std::string>> key;
  for (auto [number, entry] : llvm::enumerate(byCount)) {
    bool hasOwn = number < std::size(kClasses);
    colours[entry.first] = hasOwn ? kClasses[number] : kRest;
    if (hasOwn)
      key.push_back({colours[entry.first],
                     entry.first + " (" + std::to_string(entry.second) + ")"});
  }
  if (byCount.size() > std::size(kClasses))
    key.push_back({kRest, "other"});

  llvm::StringMap<size_t> places;
  for (auto [number, value] : llvm::enumerate(values))
    places.try_emplace(textAt(value.getAsObject(), "name"), number);
  out << "<h2>Values in the order of the program, by how they are cut</h2>\n"
      << "<p>Below: what is sent, where; as high as its share of the bytes."
      << "</p>\n";
  constexpr double kStrip = 34, kMarks = 46;
  double top = isStaged ? 22 : 4;
  {
    Picture picture(out, top + kStrip + kMarks + 4, "values");
    for (const Run &run : isStaged ? stages : std::vector<Run>()) {
      if (run.what.empty())
        continue;
      auto number = size_t(std::strtoul(run.what.c_str() + 6, nullptr, 10));
      picture.box(double(run.begin) * unit, 14,
                  double(run.end - run.begin) * unit, 5,
                  kClasses[number % std::size(kClasses)], titleOf(run));
      if (double(run.end - run.begin) * unit > 50)
        picture.text(double(run.begin) * unit, 11, run.what);
    }
    for (const Run &run : shardings)
      picture.box(double(run.begin) * unit, top,
                  double(run.end - run.begin) * unit, kStrip, colours[run.what],
                  titleOf(run));
    const json::Array &sent =
        listOf(plan.getObject("communication"), "collectives");
    double max = 0;
    for (const json::Value &each : sent)
      max = std::max(max, numberAt(each.getAsObject(), {"bytes_per_rank"}));
    for (const json::Value &each : sent) {
      const json::Object *move = each.getAsObject();
      auto place = places.find(textAt(move, "tensor"));
      if (place == places.end())
        place = places.find(textAt(move, "node"));
      if (place == places.end() || sent.size() > kMaxBoxes)
        continue;
      double bytes = numberAt(move, {"bytes_per_rank"});
      std::string axes;
      for (const json::Value &axis : listOf(move, "axes"))
        axes +=
            (axes.empty() ? "" : ", ") + axis.getAsString().value_or("").str();
      picture.box(double(place->second) * unit, top + kStrip + 3,
                  std::max(unit, 2.0),
                  4 + (max > 0 ? (kMarks - 8) * bytes / max : 0), "line",
                  textAt(move, "op") + " over " + axes + " of " +
                      textAt(move, "tensor") + ", " + textAt(move, "purpose") +
                      ": " + formatBytes(bytes) + " per rank");
    }
  }
  printKey(out, key);
}

//===----------------------------------------------------------------------===//
// Who computes what when
//===----------------------------------------------------------------------===//

namespace {
struct Bar {
  double begin, end;
  const char *kind;
  std::string title, inside;
};
struct Row {
  std::string name;
  std::vector<Bar> bars;
};
} // namespace

/// Which chunk of its stage a run is of, where it is not the first.
static std::string chunkOf(const json::Object *run) {
  auto chunk = int64_t(numberAt(run, {"chunk"}));
  return chunk > 0 ? ", chunk " + std::to_string(chunk) : "";
}

/// What the search simulated for each stage, then what runs once per step.
static std::vector<Row> rowsOfPlan(const json::Object &plan, double step) {
  std::vector<Row> rows;
  double end = 0;
  for (const json::Value &value : listOf(&plan, "stages")) {
    const json::Object *stage = value.getAsObject();
    Row &row = rows.emplace_back();
    row.name = "stage " + std::to_string(int64_t(numberAt(stage, {"index"})));
    for (const json::Value &each : listOf(stage, "runs")) {
      const json::Object *run = each.getAsObject();
      std::string phase = textAt(run, "phase"),
                  micro =
                      std::to_string(int64_t(numberAt(run, {"micro_batch"})));
      row.bars.push_back(
          {numberAt(run, {"begin_seconds"}), numberAt(run, {"end_seconds"}),
           phase == "forward" ? "a" : "b",
           phase + " of micro-batch " + micro + chunkOf(run), micro});
      end = std::max(end, row.bars.back().end);
    }
  }
  if (llvm::any_of(rows, [](const Row &row) { return row.bars.empty(); }))
    return {};
  for (Row &row : rows)
    if (step > end * (1 + 1e-9))
      row.bars.push_back({end, step, "c", "what runs once per step", ""});
  return rows;
}

/// What each rank's instructions took, one after another.
static std::vector<Row> rowsOfRun(const json::Object &run) {
  std::vector<Row> rows;
  for (const json::Value &value : listOf(&run, "ranks")) {
    const json::Object *rank = value.getAsObject();
    Row &row = rows.emplace_back();
    row.name = "rank " + std::to_string(int64_t(numberAt(rank, {"rank"})));
    double at = 0;
    for (const json::Value &each : listOf(rank, "instructions")) {
      const json::Object *instruction = each.getAsObject();
      std::string op = textAt(instruction, "op"),
                  micro = std::to_string(
                      int64_t(numberAt(instruction, {"micro_batch"})));
      double seconds = numberAt(instruction, {"seconds"});
      bool computes = op == "run";
      row.bars.push_back(
          {at, at + seconds,
           computes                       ? "a"
           : op == "send" || op == "recv" ? "b"
                                          : "c",
           op + ", micro-batch " + micro + ": " + formatSeconds(seconds),
           computes ? micro : ""});
      at += seconds;
    }
  }
  return rows;
}

void kerf::tool::drawSchedule(llvm::raw_ostream &out,
                              const json::Object &root) {
  bool isPlan = !root.getArray("ranks");
  double whole = isPlan ? numberAt(&root, {"time", "step_seconds"}) : 0;
  std::vector<Row> rows = isPlan ? rowsOfPlan(root, whole) : rowsOfRun(root);
  size_t bars = 0;
  for (const Row &row : rows) {
    bars += row.bars.size();
    if (!row.bars.empty())
      whole = std::max(whole, row.bars.back().end);
  }
  if (rows.empty() || whole <= 0)
    return;
  if (rows.size() > kMaxRows)
    return printNotDrawn(out, "Schedule", kMaxRows, "stages or ranks");
  if (bars > kMaxBoxes)
    return printNotDrawn(out, "Schedule", kMaxBoxes, "pieces of work");
  constexpr double kLeft = 64, kRow = 22;
  double scale = (kWidth - kLeft) / whole;
  out << "<h2>"
      << (isPlan ? "Schedule, as predicted" : "Instructions, as measured")
      << ": " << formatSeconds(whole) << "</h2>\n";
  {
    Picture picture(out, kRow * double(rows.size()) + 2, "schedule");
    for (auto [number, row] : llvm::enumerate(rows)) {
      double top = kRow * double(number);
      picture.text(0, top + 14, row.name);
      for (const Bar &bar : row.bars) {
        double width = (bar.end - bar.begin) * scale;
        double left = kLeft + bar.begin * scale;
        // Hairlines keep neighbours apart.
        picture.box(left, top + 2, std::max(width - 0.6, 0.2), kRow - 5,
                    bar.kind, bar.title);
        if (!bar.inside.empty() && width > 9.0 * double(bar.inside.size()))
          picture.text(left + width / 2, top + 14, bar.inside, "on");
      }
    }
  }
  if (isPlan)
    printKey(out, {{"a", "forward"},
                   {"b", "backward"},
                   {"c", "once per step, all of it behind"}});
  else
    printKey(out, {{"a", "functions, their collectives included"},
                   {"b", "sends and receives"},
                   {"c", "inputs and outputs"}});
}

//===----------------------------------------------------------------------===//
// Memory over a step
//===----------------------------------------------------------------------===//

void kerf::tool::drawMemory(llvm::raw_ostream &out, const json::Object &plan) {
  const json::Array &devices = listOf(plan.getObject("memory"), "per_device");
  auto callsOf = [](const json::Object *device) {
    return numberAt(device, {"over_time", "calls"});
  };
  double whole = 0;
  for (const json::Value &device : devices) {
    if (callsOf(device.getAsObject()) <= 1)
      return; // nothing changes, or it is not known
    whole = std::max(whole, numberAt(device.getAsObject(), {"peak"}));
  }
  if (devices.empty() || whole <= 0)
    return;
  // A limit far above would leave nothing to be seen.
  double limit = numberAt(&plan, {"memory", "limit"});
  bool showsLimit = limit >= whole && limit < 2 * whole;
  if (showsLimit)
    whole = limit;
  if (devices.size() > kMaxRows)
    return printNotDrawn(out, "Memory over a step", kMaxRows, "stages");
  constexpr double kLeft = 64, kRow = 90, kPlot = 70;
  out << "<h2>Memory of a device over a step, as laid out</h2>\n<p>Calls in "
         "their order, whatever they take; as high as "
      << formatBytes(whole) << (showsLimit ? ", the limit" : "")
      << ". Below what is held all the time.</p>\n";
  {
    Picture picture(out, kRow * double(devices.size()) + 2, "memory");
    for (auto [number, value] : llvm::enumerate(devices)) {
      const json::Object *device = value.getAsObject();
      double bottom = kRow * double(number) + kRow - 12;
      double held = numberAt(device, {"peak"}) -
                    numberAt(device, {"activations"}) -
                    numberAt(device, {"gradients"});
      const json::Object *time = device->getObject("over_time");
      const json::Array &bytes = listOf(time, "bytes");
      double unit = (kWidth - kLeft) / double(bytes.size());
      auto heightOf = [&](double amount) {
        return bottom - kPlot * std::min(amount / whole, 1.0);
      };
      picture.text(0, bottom - 20, "stage " + std::to_string(number));
      picture.text(0, bottom - 6, formatBytes(numberAt(device, {"peak"})));
      // Where micro-batches begin, for the eye.
      for (const json::Value &each : listOf(time, "runs")) {
        const json::Object *run = each.getAsObject();
        picture.box(
            kLeft + numberAt(run, {"begin"}) * unit, bottom - kPlot, 0.4, kPlot,
            kRest,
            textAt(run, "phase") + " of micro-batch " +
                std::to_string(int64_t(numberAt(run, {"micro_batch"}))));
      }
      std::vector<std::pair<double, double>> points = {{kLeft, heightOf(held)}};
      double max = 0;
      for (auto [at, amount] : llvm::enumerate(bytes)) {
        double used = amount.getAsNumber().value_or(0);
        max = std::max(max, used);
        points.push_back({kLeft + double(at) * unit, heightOf(held + used)});
        points.push_back(
            {kLeft + double(at + 1) * unit, heightOf(held + used)});
      }
      points.push_back({kWidth, heightOf(held)});
      picture.shape(points, "d",
                    "activations and gradients: at most " + formatBytes(max) +
                        " in use, in an arena of " +
                        formatBytes(numberAt(device, {"activations"}) +
                                    numberAt(device, {"gradients"})));
      picture.box(kLeft, heightOf(held), kWidth - kLeft,
                  bottom - heightOf(held), "a",
                  "parameters, optimizer, workspace: " + formatBytes(held));
    }
  }
  printKey(out, {{"a", "parameters, optimizer, workspace"},
                 {"d", "activations and gradients"}});
}
