//===- IOPDDL.cpp - reading and writing contest instances -----------------===//
//
// Instances have millions of numbers, so this is a direct reader of the few
// shapes that the format has, not a JSON tree. Anything else is skipped by
// value; every error names its byte.
//
//===----------------------------------------------------------------------===//
#include "kerf/Plan/IOPDDL.h"

#include "llvm/ADT/Twine.h"

using namespace kerf::plan;

namespace {

/// A cursor over the text. After the first error every call fails.
class Scanner {
public:
  explicit Scanner(llvm::StringRef text)
      : begin(text.data()), at(text.data()), end(text.data() + text.size()) {}

  bool fail(const llvm::Twine &message) {
    if (message_.empty())
      message_ = ("byte " + llvm::Twine(at - begin) + ": " + message).str();
    at = end;
    return false;
  }
  llvm::Error error() const { return llvm::createStringError(message_); }
  bool failed() const { return !message_.empty(); }

  void space() {
    while (at != end &&
           (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
      ++at;
  }
  bool peek(char c) {
    space();
    return at != end && *at == c;
  }
  bool expect(char c) {
    if (peek(c)) {
      ++at;
      return true;
    }
    return fail(llvm::Twine("expected '") + llvm::Twine(c) + "'");
  }
  bool atEnd() {
    space();
    return at == end;
  }

  bool integer(int64_t &out) {
    space();
    const char *start = at;
    bool negative = at != end && *at == '-';
    if (negative)
      ++at;
    __int128 value = 0;
    const char *digits = at;
    for (; at != end && *at >= '0' && *at <= '9'; ++at)
      if (value <= INT64_MAX)
        value = value * 10 + (*at - '0');
    bool fraction = at != end && (*at == '.' || *at == 'e' || *at == 'E');
    if (at == digits || fraction) {
      at = start;
      return fail("expected an integer");
    }
    if (value > INT64_MAX) {
      at = start;
      return fail("integer out of range");
    }
    out = static_cast<int64_t>(negative ? -value : value);
    return true;
  }

  bool string(std::string &out) {
    if (!expect('"'))
      return false;
    out.clear();
    while (at != end && *at != '"') {
      if (*at == '\\' && ++at == end)
        break;
      out += *at++;
    }
    return expect('"');
  }

  /// Calls `element` at each element of an array.
  template <typename Fn> bool array(Fn element) {
    if (!expect('['))
      return false;
    if (peek(']'))
      return expect(']');
    do {
      if (!element())
        return false;
      space();
    } while (at != end && *at == ',' && ++at);
    return expect(']');
  }

  /// Calls `member` with each name of an object; it must consume the value.
  template <typename Fn> bool object(Fn member) {
    if (!expect('{'))
      return false;
    if (peek('}'))
      return expect('}');
    do {
      std::string name;
      if (!string(name) || !expect(':') || !member(llvm::StringRef(name)))
        return false;
      space();
    } while (at != end && *at == ',' && ++at);
    return expect('}');
  }

  bool integers(std::vector<int64_t> &out) {
    return array([&] {
      int64_t value;
      if (!integer(value))
        return false;
      out.push_back(value);
      return true;
    });
  }

  /// Skips any value without recursion.
  bool skip() {
    int depth = 0;
    do {
      space();
      if (at == end)
        return fail("expected a value");
      char c = *at;
      if (c == '"') {
        std::string ignored;
        if (!string(ignored))
          return false;
      } else if (c == '[' || c == '{') {
        ++depth;
        ++at;
      } else if (c == ']' || c == '}') {
        if (depth == 0)
          return fail("expected a value");
        --depth;
        ++at;
      } else {
        ++at;
        if (c == ',' || c == ':')
          continue;
        while (at != end && !llvm::StringRef(" \n\t\r,:]}").contains(*at))
          ++at;
      }
    } while (depth > 0);
    return true;
  }

private:
  const char *begin, *at, *end;
  std::string message_;
};

using Lists = std::vector<std::vector<int64_t>>;

struct Instance {
  std::string name;
  Lists intervals, costs, usages, edgeNodes, edgeCosts;
  std::optional<int64_t> limit;
  bool found = false;

  bool read(Scanner &in);
};

} // namespace

bool Instance::read(Scanner &in) {
  auto lists = [&](Lists &out) {
    return in.array([&] {
      out.emplace_back();
      return in.integers(out.back());
    });
  };
  auto nodes = [&](llvm::StringRef name) {
    return name == "intervals" ? lists(intervals)
           : name == "costs"   ? lists(costs)
           : name == "usages"  ? lists(usages)
                               : in.skip();
  };
  auto edges = [&](llvm::StringRef name) {
    return name == "nodes"   ? lists(edgeNodes)
           : name == "costs" ? lists(edgeCosts)
                             : in.skip();
  };
  auto problem = [&](llvm::StringRef member) {
    if (member == "name")
      return in.string(name);
    if (member == "nodes")
      return in.object(nodes);
    if (member == "edges")
      return in.object(edges);
    if (member == "usage_limit" && !in.peek('n'))
      return in.integer(limit.emplace());
    return in.skip();
  };
  return in.object([&](llvm::StringRef member) {
    if (member != "problem")
      return in.skip();
    found = true;
    return in.object(problem);
  });
}

static llvm::Error failure(const llvm::Twine &message) {
  return llvm::createStringError(message);
}

llvm::Expected<Problem> kerf::plan::parseIOPDDL(llvm::StringRef json) {
  Scanner in(json);
  Instance instance;
  if (!instance.read(in))
    return in.error();
  if (!in.atEnd()) {
    in.fail("expected the end of the file");
    return in.error();
  }
  if (!instance.found)
    return failure("missing member \"problem\"");
  size_t numNodes = instance.costs.size();
  if (instance.intervals.size() != numNodes ||
      instance.usages.size() != numNodes)
    return failure("nodes have " + llvm::Twine(instance.intervals.size()) +
                   " intervals, " + llvm::Twine(numNodes) + " costs and " +
                   llvm::Twine(instance.usages.size()) +
                   " usages, expected equal numbers");
  if (instance.edgeNodes.size() != instance.edgeCosts.size())
    return failure("edges have " + llvm::Twine(instance.edgeNodes.size()) +
                   " node lists and " + llvm::Twine(instance.edgeCosts.size()) +
                   " cost lists, expected equal numbers");
  Problem problem;
  problem.name = instance.name;
  uint32_t memory = problem.addResource("memory", instance.limit);
  for (size_t i = 0; i < numNodes; ++i) {
    const std::vector<int64_t> &interval = instance.intervals[i];
    if (interval.size() != 2)
      return failure("interval of node " + llvm::Twine(i) + " has " +
                     llvm::Twine(interval.size()) + " entries, expected 2");
    problem.addNode(CostTable(std::move(instance.costs[i])));
    problem.addUsage(memory, i, {interval[0], interval[1]},
                     std::move(instance.usages[i]));
  }
  for (size_t i = 0; i < instance.edgeNodes.size(); ++i) {
    std::vector<uint32_t> ends;
    for (int64_t node : instance.edgeNodes[i]) {
      if (node < 0 || node >= static_cast<int64_t>(numNodes))
        return failure("edge " + llvm::Twine(i) + " has node " +
                       llvm::Twine(node) + ", expected 0 to " +
                       llvm::Twine(static_cast<int64_t>(numNodes) - 1));
      ends.push_back(static_cast<uint32_t>(node));
    }
    problem.addEdge(std::move(ends),
                    CostTable(std::move(instance.edgeCosts[i])));
  }
  if (llvm::Error error = problem.check())
    return std::move(error);
  return problem;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

template <typename Range, typename Fn>
static void writeList(std::string &out, const Range &range, Fn element) {
  out += '[';
  bool first = true;
  for (const auto &item : range) {
    if (!first)
      out += ", ";
    first = false;
    element(item);
  }
  out += ']';
}

static void writeIntegers(std::string &out, const std::vector<int64_t> &list) {
  writeList(out, list, [&](int64_t value) { out += std::to_string(value); });
}

static void writeString(std::string &out, llvm::StringRef text) {
  out += '"';
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  out += '"';
}

llvm::Expected<std::string> kerf::plan::writeIOPDDL(const Problem &problem) {
  auto hasLowerLevels = [](const CostTable &table) {
    return !table.levels[1].empty() || !table.levels[2].empty();
  };
  for (const Problem::Node &node : problem.nodes)
    if (hasLowerLevels(node.costs))
      return failure("costs have several levels, the format has one");
  for (const CostTable &table : problem.tables)
    if (hasLowerLevels(table))
      return failure("costs have several levels, the format has one");
  if (problem.resources.size() > 1)
    return failure("problem has " + llvm::Twine(problem.resources.size()) +
                   " resources, the format has one");

  // A node without a usage gets an empty interval and no usage.
  std::vector<const Problem::Usage *> usageOf(problem.nodes.size());
  if (!problem.resources.empty())
    for (const Problem::Usage &usage : problem.resources[0].usages) {
      if (usageOf[usage.node])
        return failure("node " + llvm::Twine(usage.node) +
                       " has several usages, the format has one");
      usageOf[usage.node] = &usage;
    }
  std::string out = "{\"problem\": {\"name\": ";
  writeString(out, problem.name);
  out += ", \"nodes\": {\"intervals\": ";
  writeList(out, usageOf, [&](const Problem::Usage *usage) {
    Interval live = usage ? usage->live : Interval{0, 0};
    writeIntegers(out, {live.begin, live.end});
  });
  out += ", \"costs\": ";
  writeList(out, problem.nodes, [&](const Problem::Node &node) {
    writeIntegers(out, node.costs.levels[0]);
  });
  out += ", \"usages\": ";
  size_t next = 0;
  writeList(out, usageOf, [&](const Problem::Usage *usage) {
    writeIntegers(out, usage ? usage->amounts
                             : std::vector<int64_t>(problem.numChoices(next)));
    ++next;
  });
  out += "}, \"edges\": {\"nodes\": ";
  writeList(out, problem.edges, [&](const Problem::Edge &edge) {
    writeIntegers(out, {edge.nodes.begin(), edge.nodes.end()});
  });
  out += ", \"costs\": ";
  writeList(out, problem.edges, [&](const Problem::Edge &edge) {
    writeIntegers(out, problem.tables[edge.table].levels[0]);
  });
  out += '}';
  if (!problem.resources.empty() && problem.resources[0].limit)
    out += ", \"usage_limit\": " + std::to_string(*problem.resources[0].limit);
  out += "}}\n";
  return out;
}

std::string kerf::plan::writeSolution(const Solution &solution) {
  std::string out;
  writeIntegers(out, {solution.begin(), solution.end()});
  return out;
}

llvm::Expected<Solution> kerf::plan::parseSolution(llvm::StringRef text) {
  Scanner in(text);
  std::vector<int64_t> values;
  if (!in.integers(values))
    return in.error();
  if (!in.atEnd()) {
    in.fail("expected the end of the solution");
    return in.error();
  }
  Solution solution;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] > INT32_MAX)
      return failure("entry " + llvm::Twine(i) + " is " +
                     llvm::Twine(values[i]) + ", expected a choice");
    solution.push_back(static_cast<uint32_t>(values[i]));
  }
  return solution;
}
