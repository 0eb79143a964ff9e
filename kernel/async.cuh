// Asynchronous plumbing: mbarriers, bulk copies and stores, named barriers, register reallocation.
#pragma once

INLINE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// A CTA's dynamic shared memory, from a multiple of 1024 bytes on: the host asks for that much more.
INLINE u32 shared_base() {
  extern __shared__ __align__(1024) u8 raw[];
  return (shared_address(raw) + 1023) & ~1023u;
}

INLINE void barrier_init(u32 bar, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

// Makes initialised mbarriers visible to the copy engine; a __syncthreads must follow.
INLINE void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

INLINE void barrier_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

INLINE void barrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

// One arrival for the whole warp, after all of its lanes are done with what the barrier guards.
INLINE void warp_arrive(u32 bar) {
  __syncwarp();
  if ((threadIdx.x & 31) == 0) barrier_arrive(bar);
}

INLINE bool barrier_try(u32 bar, u32 parity) {
  u32 done;
  asm volatile(
      "{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  return done;
}

// Waits until the phase of this parity has completed. With WATCHDOG set, a wait that never ends traps.
INLINE void barrier_wait(u32 bar, u32 parity) {
#if WATCHDOG
  for (u32 tries = 0; !barrier_try(bar, parity); ++tries)
    if (tries > (1u << 20)) asm volatile("trap;");
#else
  while (!barrier_try(bar, parity)) {
  }
#endif
}

// Global to shared, 16-byte aligned, a multiple of 16 bytes; completes on the mbarrier.
INLINE void bulk_load(u32 to, const void* from, u32 bytes, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(bar)
               : "memory");
}

// Shared to global, committed as one bulk group of the calling thread.
INLINE void bulk_store(void* to, u32 from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)),
               "r"(from), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// All of the thread's bulk stores have read their shared memory: it may be written again.
INLINE void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
// All of the thread's bulk stores are complete.
INLINE void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Orders this thread's ordinary shared memory writes before later copy-engine and tensor-core reads.
INLINE void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

INLINE void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

INLINE void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Launches that overlap: the next one may start its CTAs now, and waits where it needs what this one wrote.
INLINE void release_next_launch() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
INLINE void wait_for_launch() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// Before a kernel's first access to global memory: it may have started beside the launch before it, whose end is
// the end of all launches before that too, since each of them waits here.
INLINE void follow_launch() {
  wait_for_launch();
  release_next_launch();
}

template <int N>
INLINE void registers_grow() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
INLINE void registers_shrink() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

INLINE void load_matrix_x4(u32 (&r)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

INLINE void store_matrix_x4_transposed(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a),
               "r"(b), "r"(c), "r"(d)
               : "memory");
}

INLINE float4 load_shared4(u32 address) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

INLINE void store_shared4(u32 address, float4 v) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}

INLINE u32 load_shared(u32 address) {
  u32 v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}

INLINE void store_shared(u32 address, u32 v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}

INLINE void store_shared2(u32 address, u32 a, u32 b) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(a), "r"(b) : "memory");
}

INLINE void store_shared_byte(u32 address, u32 v) {
  asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
