// The report's figures, drawn by report.py (scripts/ in the source tree).
#pragma once

#include <string>
#include <vector>

namespace mpfa::tools {

struct Figure {
  std::string id;       // "errors", "channel", "bytes"
  std::string caption;  // one or two sentences
  std::string svg;
};

struct Figures {
  std::vector<Figure> list;
  std::string problem;  // where there are none: why, and how to get them
};

// Runs the script on the demo's JSON with the first Python that has matplotlib: the one that
// MPFA_PYTHON names and no other, else that of .venv in the source tree that the script lies in,
// else python3. Never throws for want of Python.
Figures draw_figures(const std::string& script, const std::string& json_path);

}  // namespace mpfa::tools
