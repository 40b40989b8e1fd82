// What is said when no thread of a cluster can go on.
#pragma once

namespace mpfa::sim {

struct Cluster;

// Throws the Fault: who waits where, and barrier divergence if that is why.
[[noreturn]] void report_deadlock(const Cluster& cluster);

}  // namespace mpfa::sim
