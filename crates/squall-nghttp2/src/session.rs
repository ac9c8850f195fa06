//! The HTTP/2 session of a server: bytes in, bytes out, messages submitted.
//!
//! It opens no socket and decides nothing: the handler receives events, the owner submits messages.

use std::mem;
use std::ptr::{self, NonNull};
use std::slice;

use libnghttp2_sys as ffi;

use crate::bodies::{Bodies, Body};
use crate::callbacks::{Callbacks, Context, body_provider};
use crate::error::Error;
use crate::handler::Handler;
use crate::headers::HeaderBlock;
use crate::protocol::Http2Session;
use crate::settings::{Options, RawOptions, Setting};

/// The largest flow-control window (RFC 9113, section 6.9.1).
pub const MAX_WINDOW_BYTES: u32 = i32::MAX as u32;

/// A server's HTTP/2 session.
pub struct Session<H: Handler> {
    session: NonNull<ffi::nghttp2_session>,
    /// Made from a `Box`; nghttp2 holds the same pointer as its user data.
    context: NonNull<Context<H>>,
}

// SAFETY: nghttp2 has no state outside its session and is not tied to a thread. This value is the only owner of the
// context, which holds only the handler, shared bodies (`Bytes`) and a panic's payload.
unsafe impl<H: Handler + Send> Send for Session<H> {}

impl<H: Handler> Session<H> {
    /// A server's session. It expects the connection preface.
    pub fn server(handler: H, options: &Options) -> Result<Self, Error> {
        let raw_options = RawOptions::new()?;
        let callbacks = Callbacks::new::<H>()?;
        let mut context = Box::new(Context::new(handler, options.data_bytes));
        let mut session = ptr::null_mut();
        let user_data = (&raw mut *context).cast();
        // SAFETY: every pointer is valid during the call; nghttp2 copies callbacks and options, and does not look into its
        // user data.
        Error::check(unsafe {
            ffi::nghttp2_session_server_new2(
                &raw mut session,
                callbacks.as_ptr(),
                user_data,
                raw_options.as_ptr(),
            )
        })?;
        let session = NonNull::new(session).ok_or(Error::Library(ffi::NGHTTP2_ERR_NOMEM))?;
        let context = NonNull::from(Box::leak(context));
        // SAFETY: the session was just made; the pointer comes from the box as it was leaked, so that no
        // later borrow of the box can invalidate it.
        unsafe { ffi::nghttp2_session_set_user_data(session.as_ptr(), context.as_ptr().cast()) };
        Ok(Session { session, context })
    }

    fn context_mut(&mut self) -> &mut Context<H> {
        // SAFETY: as in `handler`; the mutable borrow of `self` makes this the only reference.
        unsafe { &mut *self.context.as_ptr() }
    }

    /// Queues a SETTINGS frame.
    pub fn submit_settings(&mut self, settings: &[Setting]) -> Result<(), Error> {
        let entries: Vec<_> = settings.iter().map(|setting| setting.entry()).collect();
        // SAFETY: the session is alive; the entries are copied during the call.
        Error::check(unsafe {
            ffi::nghttp2_submit_settings(self.session.as_ptr(), 0, entries.as_ptr(), entries.len())
        })?;
        Ok(())
    }

    /// Queues the response on a stream that the client opened and that is still open.
    pub fn submit_response(
        &mut self,
        stream: u32,
        headers: &HeaderBlock,
        body: Body<'_>,
    ) -> Result<(), Error> {
        let stream = id(stream)?;
        let provider = (!body.is_empty()).then(body_provider::<H>);
        self.retain(headers);
        // SAFETY: the session is alive; the header fields stay in place while `queued_headers` has them; the provider
        // is copied during the call, reads from `Bodies` by stream id and needs no pointer of its own.
        Error::check(unsafe {
            ffi::nghttp2_submit_response2(
                self.session.as_ptr(),
                stream,
                headers.as_ptr(),
                headers.len(),
                provider.as_ref().map_or(ptr::null(), ptr::from_ref),
            )
        })?;
        if !body.is_empty() {
            self.context_mut().bodies.insert(stream as u32, body);
        }
        Ok(())
    }

    /// Queues an interim response (RFC 9113, section 8.1) on a stream that the client opened and that has no response yet.
    pub fn submit_interim(&mut self, stream: u32, headers: &HeaderBlock) -> Result<(), Error> {
        let stream = id(stream)?;
        self.retain(headers);
        // SAFETY: the session is alive; the header fields stay in place while `queued_headers` has them; there is no
        // priority.
        Error::check(unsafe {
            ffi::nghttp2_submit_headers(
                self.session.as_ptr(),
                0,
                stream,
                ptr::null(),
                headers.as_ptr(),
                headers.len(),
                ptr::null_mut(),
            )
        })?;
        Ok(())
    }

    /// The last stream of the peer that was processed.
    pub fn last_processed_stream(&self) -> u32 {
        // SAFETY: the session is alive; the function only reads.
        unsafe { ffi::nghttp2_session_get_last_proc_stream_id(self.session.as_ptr()) as u32 }
    }

    /// Keeps a header section until it is serialised. Usually it is the same as the last one.
    fn retain(&mut self, headers: &HeaderBlock) {
        let queued = &mut self.context_mut().queued_headers;
        if !queued.last().is_some_and(|last| last.is_same(headers)) {
            queued.push(headers.clone());
        }
    }

    /// Whether the session still needs bytes from the peer.
    pub fn wants_read(&self) -> bool {
        // SAFETY: the session is alive; the function only reads.
        unsafe { ffi::nghttp2_session_want_read(self.session.as_ptr()) != 0 }
    }

    /// How much DATA we may send on a stream, or on the connection (0). Negative if the peer has shrunk its window; also -1
    /// if the stream is not open.
    pub fn window_to_send(&self, stream: u32) -> i32 {
        // SAFETY: the session is alive; the functions only read.
        id(stream).map_or(-1, |stream| unsafe {
            match stream {
                0 => ffi::nghttp2_session_get_remote_window_size(self.session.as_ptr()),
                _ => ffi::nghttp2_session_get_stream_remote_window_size(
                    self.session.as_ptr(),
                    stream,
                ),
            }
        })
    }
}

impl<H: Handler> Http2Session<H> for Session<H> {
    fn handler(&self) -> &H {
        // SAFETY: the context lives as long as `self`, and callbacks, which change it, run only inside
        // methods that borrow `self` mutably.
        unsafe { &(*self.context.as_ptr()).handler }
    }

    fn handler_mut(&mut self) -> &mut H {
        &mut self.context_mut().handler
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the session is alive and `bytes` is readable; the callbacks run during this call use the context, to
        // which no reference exists now.
        let taken = unsafe {
            ffi::nghttp2_session_mem_recv2(self.session.as_ptr(), bytes.as_ptr(), bytes.len())
        };
        self.context_mut().resume_panic();
        // Fewer would mean that a callback had paused the session, which no callback does.
        let taken = Error::check_size(taken)?;
        debug_assert_eq!(
            taken,
            bytes.len(),
            "nghttp2 takes everything unless it is paused"
        );
        Ok(())
    }

    fn send(&mut self, out: &mut Vec<u8>) -> Result<usize, Error> {
        let mut data = ptr::null();
        // SAFETY: the session is alive, `data` is a valid place for the pointer; callbacks as in `receive`.
        let len = unsafe { ffi::nghttp2_session_mem_send2(self.session.as_ptr(), &raw mut data) };
        self.context_mut().resume_panic();
        let len = Error::check_size(len)?;
        if len > 0 {
            // SAFETY: nghttp2 returned `len` bytes that stay valid until its next call.
            out.extend_from_slice(unsafe { slice::from_raw_parts(data, len) });
        }
        if !self.wants_write() && self.queued_frames() == 0 {
            // Every header section is serialised, so nghttp2 no longer holds pointers to them.
            self.context_mut().queued_headers.clear();
        }
        Ok(len)
    }

    fn wants_write(&self) -> bool {
        // SAFETY: the session is alive; the function only reads.
        unsafe { ffi::nghttp2_session_want_write(self.session.as_ptr()) != 0 }
    }

    fn queued_frames(&self) -> usize {
        // SAFETY: the session is alive; the function only reads.
        unsafe { ffi::nghttp2_session_get_outbound_queue_size(self.session.as_ptr()) }
    }

    fn peer_max_frame_bytes(&self) -> u32 {
        // SAFETY: the session is alive; the function only reads.
        unsafe {
            ffi::nghttp2_session_get_remote_settings(
                self.session.as_ptr(),
                ffi::NGHTTP2_SETTINGS_MAX_FRAME_SIZE,
            )
        }
    }

    fn set_connection_window(&mut self, bytes: u32) -> Result<(), Error> {
        let bytes = i32::try_from(bytes).map_err(|_| Error::INVALID_ARGUMENT)?;
        // SAFETY: the session is alive.
        Error::check(unsafe {
            ffi::nghttp2_session_set_local_window_size(self.session.as_ptr(), 0, 0, bytes)
        })?;
        Ok(())
    }

    fn submit_window_update(&mut self, stream: u32, increment: u32) -> Result<(), Error> {
        let stream = id(stream)?;
        let increment = i32::try_from(increment).map_err(|_| Error::INVALID_ARGUMENT)?;
        // SAFETY: the session is alive.
        Error::check(unsafe {
            ffi::nghttp2_submit_window_update(self.session.as_ptr(), 0, stream, increment)
        })?;
        Ok(())
    }

    fn send_window(&self, stream: u32) -> usize {
        let windows = [self.window_to_send(0), self.window_to_send(stream)];
        let smaller = windows.into_iter().min().unwrap_or(0);
        usize::try_from(smaller).unwrap_or(0)
    }

    fn window_to_receive(&mut self, stream: u32) -> u32 {
        // SAFETY: the session is alive; the functions only read.
        let bytes = id(stream).map_or(0, |stream| unsafe {
            match stream {
                0 => ffi::nghttp2_session_get_local_window_size(self.session.as_ptr()),
                _ => {
                    ffi::nghttp2_session_get_stream_local_window_size(self.session.as_ptr(), stream)
                }
            }
        });
        u32::try_from(bytes).unwrap_or(0)
    }

    fn used_window(&mut self, stream: u32) -> u32 {
        // SAFETY: the session is alive; the functions only read.
        let bytes = id(stream).map_or(0, |stream| unsafe {
            match stream {
                0 => ffi::nghttp2_session_get_effective_recv_data_length(self.session.as_ptr()),
                _ => ffi::nghttp2_session_get_stream_effective_recv_data_length(
                    self.session.as_ptr(),
                    stream,
                ),
            }
        });
        u32::try_from(bytes).unwrap_or(0)
    }

    fn submit_reset(&mut self, stream: u32, code: u32) -> Result<(), Error> {
        let stream = id(stream)?;
        // SAFETY: the session is alive.
        Error::check(unsafe {
            ffi::nghttp2_submit_rst_stream(self.session.as_ptr(), 0, stream, code)
        })?;
        Ok(())
    }

    fn submit_goaway(&mut self, last: u32, code: u32) -> Result<(), Error> {
        let last = id(last)?;
        // SAFETY: the session is alive; there is no debug data.
        Error::check(unsafe {
            ffi::nghttp2_submit_goaway(self.session.as_ptr(), 0, last, code, ptr::null(), 0)
        })?;
        Ok(())
    }

    fn terminate(&mut self, code: u32) -> Result<(), Error> {
        // SAFETY: the session is alive.
        Error::check(unsafe {
            ffi::nghttp2_session_terminate_session(self.session.as_ptr(), code)
        })?;
        Ok(())
    }

    fn bodies(&self) -> &Bodies {
        // SAFETY: as in `handler`.
        unsafe { &(*self.context.as_ptr()).bodies }
    }

    fn bodies_mut(&mut self) -> &mut Bodies {
        &mut self.context_mut().bodies
    }

    fn resume(&mut self, stream: u32) -> Result<(), Error> {
        let stream = id(stream)?;
        // SAFETY: the session is alive.
        let code = unsafe { ffi::nghttp2_session_resume_data(self.session.as_ptr(), stream) };
        match code {
            // The stream is gone, or an RST_STREAM for it is queued: its body is no longer needed.
            ffi::NGHTTP2_ERR_INVALID_ARGUMENT => Ok(()),
            code => Error::check(code).map(drop),
        }
    }
}

/// A stream id in nghttp2's type.
fn id(stream: u32) -> Result<i32, Error> {
    i32::try_from(stream).map_err(|_| Error::INVALID_ARGUMENT)
}

impl<H: Handler> Drop for Session<H> {
    fn drop(&mut self) {
        // SAFETY: both were made in `new` and are freed only here. The session is freed first, because it refers to the
        // context. Deleting a session runs no callback.
        unsafe {
            ffi::nghttp2_session_del(self.session.as_ptr());
            mem::drop(Box::from_raw(self.context.as_ptr()));
        }
    }
}
