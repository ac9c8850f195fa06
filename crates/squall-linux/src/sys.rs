//! Helpers for C calls and threads: checked results, and the bytes of a socket option.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::{panic, thread};

/// The error of a C call that has returned less than 0.
#[inline]
pub(crate) fn checked(result: libc::c_int) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads a socket option into `value`, up to the length of `value`. Returns the number of bytes read.
#[inline]
pub(crate) fn read_option(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(value.len()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: the call writes at most `length` bytes to `value`, which has that many, and the number written to `length`;
    // both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast(),
            &mut length,
        )
    };
    checked(result).map(|()| length as usize)
}

/// What an ended thread returned. If it panicked, so does the caller.
pub(crate) fn returned<T>(ended: thread::Result<T>) -> T {
    match ended {
        Ok(value) => value,
        Err(cause) => panic::resume_unwind(cause),
    }
}
