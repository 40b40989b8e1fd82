#include "sim/cudart/user_object.h"

#include "sim/cudart/api.h"
#include "sim/cudart/graph.h"
#include "sim/cudart/handle_table.h"

namespace mpfa::sim::cudart {
namespace {

HandleTable<UserObject>& objects() {
  static auto& all = *new HandleTable<UserObject>;
  return all;
}

UserObject& find_object(cudaUserObject_t handle) {
  UserObject* object = objects().find(handle);
  require(object != nullptr, cudaErrorInvalidValue, "there is no user object at ", handle);
  return *object;
}

}  // namespace

void retain(UserObject& object, unsigned count) { object.references += count; }

void release(UserObject& object, unsigned count) {
  require(count <= object.references, cudaErrorInvalidValue, "count = ", count,
          ": the user object has ", object.references, " references");
  object.references -= count;
  if (object.references != 0) return;
  const UserObject last = object;
  objects().remove(&object);
  last.destroy(last.object);
}

extern "C" {

cudaError_t cudaUserObjectCreate(cudaUserObject_t* result, void* object, cudaHostFn_t destroy,
                                 unsigned references, unsigned flags) {
  return api_call("cudaUserObjectCreate", [&] {
    require_pointer(result, "object_out");
    require(destroy != nullptr, cudaErrorInvalidValue, "destroy is null");
    require(references != 0, cudaErrorInvalidValue, "initialRefcount is 0");
    require(flags == cudaUserObjectNoDestructorSync, cudaErrorInvalidValue, "flags = ", flags,
            ": must be cudaUserObjectNoDestructorSync");
    auto made = std::make_shared<UserObject>();
    *made = {.object = object, .destroy = destroy, .references = references};
    *result = to_handle<cudaUserObject_t>(objects().add(made));
  });
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  return api_call("cudaUserObjectRetain", [&] { retain(find_object(object), count); });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return api_call("cudaUserObjectRelease", [&] { release(find_object(object), count); });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                      unsigned flags) {
  return api_call("cudaGraphRetainUserObject", [&] {
    UserObject& found = find_object(object);
    const std::shared_ptr<Graph> holder = find_graph(graph);
    require(count != 0, cudaErrorInvalidValue, "count is 0");
    if (flags == cudaGraphUserObjectMove) {
      require(count <= found.references, cudaErrorInvalidValue, "count = ", count,
              ": the user object has ", found.references, " references");
    } else {
      require(flags == 0, cudaErrorInvalidValue, "flags = ", flags,
              ": must be 0 or cudaGraphUserObjectMove");
      retain(found, count);
    }
    holder->user_objects[&found] += count;
  });
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count) {
  return api_call("cudaGraphReleaseUserObject", [&] {
    UserObject& found = find_object(object);
    auto& held = find_graph(graph)->user_objects;
    const auto entry = held.find(&found);
    require(entry != held.end() && entry->second >= count, cudaErrorInvalidValue, "count = ", count,
            ": the graph holds fewer references");
    entry->second -= count;
    if (entry->second == 0) held.erase(entry);
    release(found, count);
  });
}

}  // extern "C"
}  // namespace mpfa::sim::cudart
