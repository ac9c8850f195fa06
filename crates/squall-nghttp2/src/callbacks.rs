//! The functions that nghttp2 calls, and the state they share with the session.
//!
//! Each function only translates its arguments and calls the [`Handler`]. If that panics, the panic is caught, nghttp2 is
//! told to stop, and [`Context::resume_panic`] resumes the panic once the C code has returned.

use std::any::Any;
use std::os::raw::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::slice;

use libnghttp2_sys as ffi;

use crate::bodies::{Bodies, BodyRead};
use crate::error::{Error, describe};
use crate::handler::{FieldDecision, FrameHeader, FrameKind, Handler, ReceivedFrame};
use crate::headers::HeaderBlock;

/// The callbacks' state: nghttp2's user data.
pub(crate) struct Context<H> {
    pub(crate) handler: H,
    pub(crate) bodies: Bodies,
    /// The header sections of queued messages, which nghttp2 points into.
    pub(crate) queued_headers: Vec<HeaderBlock>,
    /// The largest payload of a DATA frame.
    data_bytes: u32,
    panic: Option<Box<dyn Any + Send>>,
}

impl<H> Context<H> {
    pub(crate) fn new(handler: H, data_bytes: u32) -> Context<H> {
        Context {
            handler,
            bodies: Bodies::new(data_bytes),
            queued_headers: Vec::new(),
            data_bytes: data_bytes.max(1),
            panic: None,
        }
    }

    /// Resumes a panic of the handler. Call it after every nghttp2 call that may run callbacks.
    pub(crate) fn resume_panic(&mut self) {
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
    }

    /// Runs `work`, and catches its panic.
    ///
    /// # Safety
    /// `user_data` must be the `Context<H>` that its session was made with, and nothing else may use it until this returns.
    unsafe fn with<R>(
        user_data: *mut c_void,
        on_panic: R,
        work: impl FnOnce(&mut Context<H>) -> R,
    ) -> R {
        // SAFETY: promised by the caller.
        let context = unsafe { &mut *user_data.cast::<Context<H>>() };
        match catch_unwind(AssertUnwindSafe(|| work(context))) {
            Ok(result) => result,
            Err(panic) => {
                context.panic = Some(panic);
                on_panic
            }
        }
    }
}

/// Owns nghttp2's callback table until a session has copied it.
pub(crate) struct Callbacks(*mut ffi::nghttp2_session_callbacks);

impl Callbacks {
    /// A table for sessions whose user data is a `Context<H>`.
    pub(crate) fn new<H: Handler>() -> Result<Callbacks, Error> {
        let mut table = ptr::null_mut();
        // SAFETY: `table` is a valid place for the pointer; on success we own it.
        Error::check(unsafe { ffi::nghttp2_session_callbacks_new(&raw mut table) })?;
        // SAFETY: `table` was just made, and the functions have the types that nghttp2 declares.
        unsafe {
            ffi::nghttp2_session_callbacks_set_on_begin_headers_callback(
                table,
                Some(on_begin_headers::<H>),
            );
            ffi::nghttp2_session_callbacks_set_on_header_callback(table, Some(on_header::<H>));
            ffi::nghttp2_session_callbacks_set_on_invalid_header_callback(
                table,
                Some(on_invalid_header),
            );
            ffi::nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
                table,
                Some(on_data::<H>),
            );
            ffi::nghttp2_session_callbacks_set_on_frame_recv_callback(
                table,
                Some(on_frame_recv::<H>),
            );
            ffi::nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(
                table,
                Some(on_invalid_frame_recv::<H>),
            );
            ffi::nghttp2_session_callbacks_set_data_source_read_length_callback2(
                table,
                Some(data_length::<H>),
            );
            ffi::nghttp2_session_callbacks_set_on_stream_close_callback(
                table,
                Some(on_stream_close::<H>),
            );
            ffi::nghttp2_session_callbacks_set_before_frame_send_callback(
                table,
                Some(before_frame_send::<H>),
            );
            ffi::nghttp2_session_callbacks_set_on_frame_not_send_callback(
                table,
                Some(on_frame_not_send::<H>),
            );
        }
        Ok(Callbacks(table))
    }

    pub(crate) fn as_ptr(&self) -> *const ffi::nghttp2_session_callbacks {
        self.0
    }
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        // SAFETY: made by `nghttp2_session_callbacks_new` and deleted only here.
        unsafe { ffi::nghttp2_session_callbacks_del(self.0) }
    }
}

/// The data provider for every body: finds the body by its stream.
pub(crate) fn body_provider<H: Handler>() -> ffi::nghttp2_data_provider2 {
    ffi::nghttp2_data_provider2 {
        source: ffi::nghttp2_data_source {
            ptr: ptr::null_mut(),
        },
        read_callback: Some(read_body::<H>),
    }
}

const FAILED: c_int = ffi::NGHTTP2_ERR_CALLBACK_FAILURE;

fn header_of(hd: &ffi::nghttp2_frame_hd) -> FrameHeader {
    FrameHeader {
        // nghttp2 refuses frames above 2^24 - 1 bytes, and stream ids are 31 bits wide.
        length_bytes: hd.length as u32,
        kind: FrameKind(hd.type_),
        flags: hd.flags,
        stream: hd.stream_id as u32,
    }
}

/// Bytes that nghttp2 passes, possibly zero bytes at a null pointer.
///
/// # Safety
/// If `len` is not 0, `data` must point to `len` bytes that do not change during `'a`.
unsafe fn bytes<'a>(data: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { slice::from_raw_parts(data, len) }
}

unsafe extern "C" fn on_begin_headers<H: Handler>(
    _session: *mut ffi::nghttp2_session,
    frame: *const ffi::nghttp2_frame,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes a valid frame (`hd` is the first field of every variant) and the session's context.
    unsafe {
        let stream = (*frame).hd.stream_id as u32;
        Context::<H>::with(user_data, FAILED, |context| {
            context.handler.headers_begun(stream);
            0
        })
    }
}

unsafe extern "C" fn on_header<H: Handler>(
    _session: *mut ffi::nghttp2_session,
    frame: *const ffi::nghttp2_frame,
    name: *const u8,
    name_len: usize,
    value: *const u8,
    value_len: usize,
    _flags: u8,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes a valid frame (`hd` is the first field of every variant), a name and a value
    // that live during this call, and the context that the session was made with.
    unsafe {
        let stream = (*frame).hd.stream_id as u32;
        let (name, value) = (bytes(name, name_len), bytes(value, value_len));
        Context::<H>::with(user_data, FAILED, |context| {
            match context.handler.header(stream, name, value) {
                FieldDecision::Continue => 0,
                // Resets only this stream; nghttp2 decodes the rest of its header section without calling us.
                FieldDecision::Refuse => ffi::NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE,
            }
        })
    }
}

/// A regular field with an invalid character, or with a blank at an end of its value, makes its message malformed (RFC
/// 9113, section 8.2.1): this resets the stream with PROTOCOL_ERROR. Without this callback, nghttp2 would only leave the
/// field out. It handles other faults itself, by ending the connection.
unsafe extern "C" fn on_invalid_header(
    _session: *mut ffi::nghttp2_session,
    _frame: *const ffi::nghttp2_frame,
    _name: *const u8,
    _name_len: usize,
    _value: *const u8,
    _value_len: usize,
    _flags: u8,
    _user_data: *mut c_void,
) -> c_int {
    ffi::NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
}

unsafe extern "C" fn on_data<H: Handler>(
    _session: *mut ffi::nghttp2_session,
    _flags: u8,
    stream: i32,
    data: *const u8,
    len: usize,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes `len` bytes that live during this call, and the session's context.
    unsafe {
        let data = bytes(data, len);
        Context::<H>::with(user_data, FAILED, |context| {
            context.handler.data(stream as u32, data);
            0
        })
    }
}

unsafe extern "C" fn on_frame_recv<H: Handler>(
    _session: *mut ffi::nghttp2_session,
    frame: *const ffi::nghttp2_frame,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes a valid frame, whose type determines the variant of the union, and the session's context.
    unsafe {
        let header = header_of(&(*frame).hd);
        let received = match header.kind {
            FrameKind::HEADERS => ReceivedFrame::Headers(header),
            FrameKind::GOAWAY => {
                let goaway = &(*frame).goaway;
                ReceivedFrame::GoAway {
                    last_stream: goaway.last_stream_id as u32,
                    code: goaway.error_code,
                }
            }
            _ => ReceivedFrame::Other(header),
        };
        Context::<H>::with(user_data, FAILED, |context| {
            context.handler.frame_received(received);
            0
        })
    }
}

unsafe extern "C" fn on_invalid_frame_recv<H: Handler>(
    _session: *mut ffi::nghttp2_session,
    frame: *const ffi::nghttp2_frame,
    code: c_int,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes a valid frame and the session's context.
    unsafe {
        let header = header_of(&(*frame).hd);
        Context::<H>::with(user_data, FAILED, |context| {
            context.handler.frame_refused(header, describe(code));
            0
        })
    }
}

unsafe extern "C" fn on_stream_close<H: Handler>(
    _session: *mut ffi::nghttp2_session,
    stream: i32,
    code: u32,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes the context that the session was made with.
    unsafe {
        Context::<H>::with(user_data, FAILED, |context| {
            context.bodies.remove(stream as u32);
            context.handler.stream_closed(stream as u32, code);
            0
        })
    }
}

unsafe extern "C" fn before_frame_send<H: Handler>(
    _session: *mut ffi::nghttp2_session,
    frame: *const ffi::nghttp2_frame,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes a valid frame, whose type determines the variant of the union (a GOAWAY's debug data lives as
    // long as the frame), and the session's context.
    unsafe {
        if FrameKind((*frame).hd.type_) != FrameKind::GOAWAY {
            return 0;
        }
        let goaway = &(*frame).goaway;
        let reason = bytes(goaway.opaque_data, goaway.opaque_data_len);
        Context::<H>::with(user_data, FAILED, |context| {
            context.handler.goaway_sending(goaway.error_code, reason);
            0
        })
    }
}

unsafe extern "C" fn on_frame_not_send<H: Handler>(
    _session: *mut ffi::nghttp2_session,
    frame: *const ffi::nghttp2_frame,
    _code: c_int,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes a valid frame and the session's context.
    unsafe {
        let header = header_of(&(*frame).hd);
        Context::<H>::with(user_data, FAILED, |context| {
            if header.kind == FrameKind::HEADERS {
                context.bodies.remove(header.stream);
            }
            0
        })
    }
}

unsafe extern "C" fn data_length<H: Handler>(
    _session: *mut ffi::nghttp2_session,
    _kind: u8,
    _stream: i32,
    _session_window: i32,
    _stream_window: i32,
    max_frame_bytes: u32,
    user_data: *mut c_void,
) -> isize {
    // SAFETY: nghttp2 passes the session's context.
    unsafe {
        Context::<H>::with(user_data, FAILED as isize, |context| {
            // nghttp2 itself reduces it to what the windows allow.
            context.data_bytes.min(max_frame_bytes) as isize
        })
    }
}

unsafe extern "C" fn read_body<H: Handler>(
    session: *mut ffi::nghttp2_session,
    stream: i32,
    buffer: *mut u8,
    len: usize,
    data_flags: *mut u32,
    _source: *mut ffi::nghttp2_data_source,
    user_data: *mut c_void,
) -> isize {
    let mut filled = 0;
    // SAFETY: nghttp2 passes its session, a buffer of `len` bytes (`read` fills no more than that over all its calls of
    // `copy`), a place for the flags, and the session's context. `submit_trailers` is called according to its contract.
    unsafe {
        let copy = |bytes: &[u8]| {
            ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.add(filled), bytes.len());
            filled += bytes.len();
        };
        let failed = FAILED as isize;
        Context::<H>::with(user_data, failed, |context| {
            match context.bodies.read(stream as u32, len, copy) {
                Some(BodyRead::Some(len)) => len as isize,
                Some(BodyRead::Last(len)) => {
                    *data_flags |= ffi::NGHTTP2_DATA_FLAG_EOF;
                    len as isize
                }
                Some(BodyRead::LastBeforeTrailers(len)) => {
                    *data_flags |=
                        ffi::NGHTTP2_DATA_FLAG_EOF | ffi::NGHTTP2_DATA_FLAG_NO_END_STREAM;
                    match submit_trailers(session, stream, context) {
                        Ok(()) => len as isize,
                        Err(code) => code,
                    }
                }
                Some(BodyRead::Later) => ffi::NGHTTP2_ERR_DEFERRED as isize,
                // Resets only this stream.
                None => ffi::NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE as isize,
            }
        })
    }
}

/// Queues the trailers of a body that has just been read to its end. nghttp2 wants this done inside its callback.
///
/// # Safety
/// `session` must be the session whose callback is running, and `context` its context.
unsafe fn submit_trailers<H>(
    session: *mut ffi::nghttp2_session,
    stream: i32,
    context: &mut Context<H>,
) -> Result<(), isize> {
    let Some(trailers) = context.bodies.take_trailers(stream as u32) else {
        return Ok(());
    };
    // SAFETY: the session is alive; submitting runs no callback; the fields stay in place while `queued_headers` has
    // them.
    let code =
        unsafe { ffi::nghttp2_submit_trailer(session, stream, trailers.as_ptr(), trailers.len()) };
    context.queued_headers.push(trailers);
    match code {
        0 => Ok(()),
        // Resets only this stream.
        _ => Err(ffi::NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE as isize),
    }
}
