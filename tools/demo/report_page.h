// report/demo.html.
#pragma once

#include <string>

#include "demo/figures.h"
#include "demo/measure.h"

namespace mpfa::tools {

// One self-contained page: no scripts, nothing from the network. Without figures it has the tables
// and says how to get figures.
std::string report_page(const DemoResult& result, const Figures& figures, bool expected);

}  // namespace mpfa::tools
