//===- Table.h - columns of text --------------------------------*- C++ -*-===//
#ifndef KERF_TOOLS_TABLE_H
#define KERF_TOOLS_TABLE_H

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace kerf::tool {

/// Rows whose columns begin below each other; the last column, of any length,
/// has no part in that.
class Table {
public:
  using Row = std::vector<std::string>;

  explicit Table(Row head) : rows{std::move(head)} {}
  void add(Row row) { rows.push_back(std::move(row)); }
  void print(llvm::raw_ostream &out) const {
    std::vector<size_t> widths(rows.front().size());
    for (const Row &row : rows)
      for (size_t column = 0; column + 1 < row.size(); ++column)
        widths[column] = std::max(widths[column], row[column].size());
    for (const Row &row : rows) {
      std::string line;
      for (size_t column = 0; column < row.size(); ++column)
        line += row[column] +
                std::string(column + 1 < row.size()
                                ? widths[column] - row[column].size() + 2
                                : 0,
                            ' ');
      out << llvm::StringRef("  " + line).rtrim() << "\n";
    }
  }

private:
  std::vector<Row> rows;
};

} // namespace kerf::tool

#endif // KERF_TOOLS_TABLE_H
