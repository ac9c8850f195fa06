//! Returns freed memory to the kernel.
//!
//! mimalloc does this itself, a second after memory was freed, but only while the program keeps freeing memory. So this module
//! asks mimalloc to do it; in a program with another allocator, that has no effect. The caller decides when.

// Contains the function below; using its own declaration would take another crate.
use libmimalloc_sys as _;

unsafe extern "C" {
    /// `void mi_collect(bool force)` of mimalloc.h.
    fn mi_collect(force: bool);
}

/// Returns memory that was freed at least a second ago. The more there is, the longer this takes, so call it while nothing is
/// measured.
pub fn return_freed_memory() {
    // SAFETY: the declaration is that of mimalloc.h; the function takes no pointers, and any thread may call it at any
    // time.
    unsafe { mi_collect(false) }
}
