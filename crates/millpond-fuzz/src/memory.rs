//! What decoding may take of memory: what its bytes account for, and no more.
//!
//! Counted over the process, so that nothing else may allocate much meanwhile.

use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// What small things take that do not depend on the input: buffers to grow into, and what other threads do.
const FREE: usize = 256 * 1024;

/// Does something that may take so many bytes of memory for each byte of its input.
pub fn bounded<T>(input: usize, each: usize, work: impl FnOnce() -> T) -> T {
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let done = work();
    let took = ALLOCATOR.peak_usage().saturating_sub(before);
    assert!(took <= FREE + each * input, "{took} bytes of memory for an input of {input}");
    done
}
