// The driver's virtual memory: address ranges, physical memory, and what is mapped where (CUDA
// Driver API, "Virtual Memory Management"). Physical memory is a file in the host's memory, so that
// it may be mapped at several addresses.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>

#include "sim/cudart/driver_call.h"
#include "sim/cudart/runtime.h"

namespace mpfa::sim::cudart {
namespace {

constexpr size_t kGranularity = 2 << 20;  // of an H200, minimum and recommended

// A file in the host's memory, closed with this.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("device memory", 0)) {}
  ~MemoryFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // -1: the host gave none.
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// Physical memory; lives as long as its handle or a mapping.
class Physical {
 public:
  explicit Physical(size_t bytes) : bytes_(bytes) {
    require(file() >= 0 && ftruncate(file(), static_cast<off_t>(bytes)) == 0,
            cudaErrorMemoryAllocation, bytes, " bytes of host memory are not to be had");
  }

  size_t bytes() const { return bytes_; }
  int file() const { return file_.descriptor(); }

 private:
  size_t bytes_;
  MemoryFile file_;
};

struct Mapping {
  size_t bytes = 0;
  std::shared_ptr<Physical> physical;
  CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
};

struct Reservation {
  size_t bytes = 0;
  std::map<CUdeviceptr, Mapping> mappings;
  std::vector<CUdeviceptr> visible;  // starts of what kernels may touch now
};

HandleTable<Physical>& physicals() {
  static auto& all = *new HandleTable<Physical>;
  return all;
}

std::map<CUdeviceptr, Reservation>& reservations() {
  static auto& all = *new std::map<CUdeviceptr, Reservation>;
  return all;
}

Reservation& find_reservation(CUdeviceptr address, size_t bytes) {
  auto after = reservations().upper_bound(address);
  require(after != reservations().begin(), cudaErrorInvalidValue, to_pointer(address),
          " is not reserved");
  --after;
  require(bytes <= after->second.bytes && address - after->first <= after->second.bytes - bytes,
          cudaErrorInvalidValue, bytes, " bytes at ", to_pointer(address), " are not reserved");
  return after->second;
}

std::shared_ptr<Physical> find_physical(CUmemGenericAllocationHandle handle) {
  std::shared_ptr<Physical> found = physicals().share(to_pointer(handle));
  require(found != nullptr, cudaErrorInvalidValue, "there is no memory with handle ", handle);
  return found;
}

void require_granular(const char* what, size_t value) {
  require(value % kGranularity == 0, cudaErrorInvalidValue, what, " = ", value,
          ": must be a multiple of ", kGranularity);
}

// Neighbours that may be touched are one allocation to kernels and copies.
void show_to_kernels(Reservation& reservation) {
  GlobalMemory& memory = gpu().memory();
  for (const CUdeviceptr start : reservation.visible) memory.release(start);
  reservation.visible.clear();
  CUdeviceptr start = 0;
  CUdeviceptr end = 0;
  const auto show = [&] {
    if (start == end) return;
    memory.register_memory(to_pointer(start), end - start, MemoryKind::kDevice);
    reservation.visible.push_back(start);
  };
  for (const auto& [address, mapping] : reservation.mappings) {
    if (mapping.access == CU_MEM_ACCESS_FLAGS_PROT_NONE) continue;
    if (address != end) {
      show();
      start = address;
    }
    end = address + mapping.bytes;
  }
  show();
}

void require_device_location(const CUmemLocation& location) {
  require(location.type == CU_MEM_LOCATION_TYPE_DEVICE && location.id == 0, cudaErrorInvalidDevice,
          "location ", static_cast<int>(location.type), " ", location.id,
          ": only device 0 is simulated");
}

CUresult get_granularity(size_t* granularity, const CUmemAllocationProp* properties,
                         CUmemAllocationGranularity_flags /*option*/) {
  return driver_call("cuMemGetAllocationGranularity", [&] {
    require_pointer(granularity, "granularity");
    require_pointer(properties, "prop");
    require_device_location(properties->location);
    *granularity = kGranularity;
  });
}

CUresult create(CUmemGenericAllocationHandle* handle, size_t bytes,
                const CUmemAllocationProp* properties, unsigned long long /*flags*/) {
  return driver_call("cuMemCreate", [&] {
    require_pointer(handle, "handle");
    require_pointer(properties, "prop");
    require_device_location(properties->location);
    require_granular("size", bytes);
    const GlobalMemory& memory = gpu().memory();
    require(bytes != 0 && bytes <= memory.capacity() - memory.used(), cudaErrorMemoryAllocation,
            bytes, " bytes do not fit");
    *handle = to_address(physicals().add(std::make_shared<Physical>(bytes)));
  });
}

CUresult release(CUmemGenericAllocationHandle handle) {
  return driver_call("cuMemRelease", [&] {
    find_physical(handle);
    physicals().remove(to_pointer(handle));
  });
}

CUresult address_reserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr /*wish*/,
                         unsigned long long /*flags*/) {
  return driver_call("cuMemAddressReserve", [&] {
    require_pointer(address, "ptr");
    require_granular("size", bytes);
    const size_t unit = std::max(alignment, kGranularity);
    require(bytes != 0 && (unit & (unit - 1)) == 0, cudaErrorInvalidValue, bytes,
            " bytes with alignment ", alignment);
    // Reserved with room to align it.
    void* room =
        mmap(nullptr, bytes + unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(room != MAP_FAILED, cudaErrorMemoryAllocation, bytes, " bytes of addresses");
    const CUdeviceptr start = (to_address(room) + unit - 1) / unit * unit;
    const size_t before = start - to_address(room);
    if (before != 0) munmap(room, before);
    munmap(to_pointer(start + bytes), unit - before);
    reservations()[start].bytes = bytes;
    *address = start;
  });
}

CUresult address_free(CUdeviceptr address, size_t bytes) {
  return driver_call("cuMemAddressFree", [&] {
    const auto found = reservations().find(address);
    require(found != reservations().end() && found->second.bytes == bytes, cudaErrorInvalidValue,
            bytes, " bytes at ", to_pointer(address), " are not a reservation");
    require(found->second.mappings.empty(), cudaErrorInvalidValue, "memory is mapped there");
    munmap(to_pointer(address), bytes);
    reservations().erase(found);
  });
}

CUresult map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
             unsigned long long /*flags*/) {
  return driver_call("cuMemMap", [&] {
    require_granular("size", bytes);
    require_granular("ptr", address);
    require(offset == 0, cudaErrorInvalidValue, "offset = ", offset, ": must be 0");
    const std::shared_ptr<Physical> physical = find_physical(handle);
    require(bytes != 0 && bytes <= physical->bytes(), cudaErrorInvalidValue, "size = ", bytes,
            "; the memory has ", physical->bytes());
    Reservation& reservation = find_reservation(address, bytes);
    for (const auto& [start, mapping] : reservation.mappings) {
      require(address + bytes <= start || start + mapping.bytes <= address, cudaErrorInvalidValue,
              "memory is mapped there");
    }
    require(mmap(to_pointer(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 physical->file(), 0) != MAP_FAILED,
            cudaErrorMemoryAllocation, bytes, " bytes cannot be mapped");
    reservation.mappings[address] = {bytes, physical, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  });
}

CUresult unmap(CUdeviceptr address, size_t bytes) {
  return driver_call("cuMemUnmap", [&] {
    Reservation& reservation = find_reservation(address, bytes);
    size_t covered = 0;
    for (const auto& [start, mapping] : reservation.mappings) {
      if (start >= address && start + mapping.bytes <= address + bytes) covered += mapping.bytes;
    }
    require(bytes != 0 && covered == bytes, cudaErrorInvalidValue, bytes, " bytes at ",
            to_pointer(address), ": are not whole mappings");
    std::erase_if(reservation.mappings, [&](const auto& each) {
      return each.first >= address && each.first < address + bytes;
    });
    show_to_kernels(reservation);
    require(mmap(to_pointer(address), bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED,
            cudaErrorUnknown, bytes, " bytes cannot be unmapped");
  });
}

CUresult set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* list, size_t count) {
  return driver_call("cuMemSetAccess", [&] {
    require_pointer(list, "desc");
    Reservation& reservation = find_reservation(address, bytes);
    for (size_t i = 0; i < count; ++i) {
      require_device_location(list[i].location);
      for (auto& [start, mapping] : reservation.mappings) {
        if (start >= address && start < address + bytes) mapping.access = list[i].flags;
      }
    }
    show_to_kernels(reservation);
  });
}

CUresult get_access(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  return driver_call("cuMemGetAccess", [&] {
    require_pointer(flags, "flags");
    require_pointer(location, "location");
    require_device_location(*location);
    for (const auto& [start, mapping] : find_reservation(address, 1).mappings) {
      if (address < start || address >= start + mapping.bytes) continue;
      *flags = mapping.access;
      return;
    }
    fail(cudaErrorInvalidValue, "nothing is mapped at ", to_pointer(address));
  });
}

}  // namespace

std::span<const DriverFunction> virtual_memory_functions() {
  static const DriverFunction kAll[] = {
      entry<address_free>("cuMemAddressFree", 10020),
      entry<address_reserve>("cuMemAddressReserve", 10020),
      entry<create>("cuMemCreate", 10020),
      entry<get_access>("cuMemGetAccess", 10020),
      entry<get_granularity>("cuMemGetAllocationGranularity", 10020),
      entry<map>("cuMemMap", 10020),
      entry<release>("cuMemRelease", 10020),
      entry<set_access>("cuMemSetAccess", 10020),
      entry<unmap>("cuMemUnmap", 10020),
  };
  return kAll;
}

}  // namespace mpfa::sim::cudart
