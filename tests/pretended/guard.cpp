// What a CPU build of torch lacks for a pretended CUDA device: a device guard that does nothing, which autograd asks for
// streams and the number of devices, and hooks that say that there is CUDA. Loaded before torch, which makes its own.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
using c10::Device, c10::DeviceIndex, c10::DeviceType, c10::Stream;
namespace {
const Device cuda(DeviceType::CUDA, 0);
const Stream only(Stream::DEFAULT, cuda);
struct Guard final : c10::impl::DeviceGuardImplInterface {
  DeviceType type() const override { return DeviceType::CUDA; }
  Device exchangeDevice(Device) const override { return cuda; }
  Device getDevice() const override { return cuda; }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device) const override { return only; }
  Stream getNewStream(Device, int) const override { return only; }
  Stream getDefaultStream(Device) const override { return only; }
  Stream getStreamFromGlobalPool(Device, bool) const override { return only; }
  Stream exchangeStream(Stream) const override { return only; }
  DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const Stream&, const DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
} guard;
}
extern "C" void pretend_register() {
  c10::impl::device_guard_impl_registry[static_cast<size_t>(DeviceType::CUDA)].store(&guard);
}
namespace at {
struct CUDAHooks : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  int getNumGPUs() const override { return 1; }
  bool isAvailable() const override { return true; }
  bool isBuilt() const override { return true; }
};
REGISTER_CUDA_HOOKS(CUDAHooks)
}
