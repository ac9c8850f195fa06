//! One HTTP/2 session: bytes in, bytes out, messages submitted.
//!
//! It opens no socket and decides nothing: the handler receives events, the owner submits messages.

use std::mem;
use std::ptr::{self, NonNull};
use std::slice;

use libnghttp2_sys as ffi;

use crate::bodies::Body;
use crate::callbacks::{Callbacks, Context, body_provider};
use crate::error::Error;
use crate::handler::Handler;
use crate::headers::HeaderBlock;
use crate::settings::{Options, RawOptions, Setting};

/// The largest flow-control window (RFC 9113, section 6.9.1).
pub const MAX_WINDOW_BYTES: u32 = i32::MAX as u32;

/// The method of the request by which a client upgraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeMethod {
    /// HEAD, whose response has no body.
    Head,
    /// Any other method.
    Other,
}

/// A client's or server's HTTP/2 session.
pub struct Session<H: Handler> {
    session: NonNull<ffi::nghttp2_session>,
    /// Made from a `Box`; nghttp2 holds the same pointer as its user data.
    context: NonNull<Context<H>>,
}

// SAFETY: nghttp2 has no state outside its session and is not tied to a thread. This value is the only owner of the
// context, which holds only the handler, shared bodies (`Bytes`) and a panic's payload.
unsafe impl<H: Handler + Send> Send for Session<H> {}

/// Which constructor of nghttp2 to use.
type Constructor = unsafe extern "C" fn(
    *mut *mut ffi::nghttp2_session,
    *const ffi::nghttp2_session_callbacks,
    *mut std::os::raw::c_void,
    *const ffi::nghttp2_option,
) -> std::os::raw::c_int;

impl<H: Handler> Session<H> {
    /// A client session. Its output begins with the connection preface.
    pub fn client(handler: H, options: &Options) -> Result<Self, Error> {
        Session::new(handler, ffi::nghttp2_session_client_new2, options)
    }

    /// A server session. It expects the connection preface.
    pub fn server(handler: H, options: &Options) -> Result<Self, Error> {
        Session::new(handler, ffi::nghttp2_session_server_new2, options)
    }

    fn new(handler: H, constructor: Constructor, options: &Options) -> Result<Self, Error> {
        let raw_options = RawOptions::new(options)?;
        let callbacks = Callbacks::new::<H>()?;
        let mut context = Box::new(Context::new(handler, options.data_bytes));
        let mut session = ptr::null_mut();
        let user_data = (&raw mut *context).cast();
        // SAFETY: every pointer is valid during the call; nghttp2 copies callbacks and options, and does not look into its
        // user data.
        Error::check(unsafe {
            constructor(
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

    /// The handler.
    pub fn handler(&self) -> &H {
        // SAFETY: the context lives as long as `self`, and callbacks, which change it, run only inside
        // methods that borrow `self` mutably.
        unsafe { &(*self.context.as_ptr()).handler }
    }

    /// The handler, for changes between calls.
    pub fn handler_mut(&mut self) -> &mut H {
        &mut self.context_mut().handler
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

    /// Continues from HTTP/1.1 as a client after status 101 (RFC 7540, section 3.2). Queues SETTINGS with the entries of
    /// `payload`, which is [`Setting::payload`] of the settings sent in HTTP2-Settings, and expects the response to
    /// a request of this method on stream 1.
    pub fn upgrade(&mut self, payload: &[u8], method: UpgradeMethod) -> Result<(), Error> {
        // SAFETY: the session is alive; the payload is read during the call.
        Error::check(unsafe {
            ffi::nghttp2_session_upgrade2(
                self.session.as_ptr(),
                payload.as_ptr(),
                payload.len(),
                i32::from(method == UpgradeMethod::Head),
                ptr::null_mut(),
            )
        })?;
        Ok(())
    }

    /// Raises the connection's receive window to at most [`MAX_WINDOW_BYTES`] by a WINDOW_UPDATE.
    pub fn set_connection_window(&mut self, bytes: u32) -> Result<(), Error> {
        let bytes = i32::try_from(bytes).map_err(|_| Error::INVALID_ARGUMENT)?;
        // SAFETY: the session is alive.
        Error::check(unsafe {
            ffi::nghttp2_session_set_local_window_size(self.session.as_ptr(), 0, 0, bytes)
        })?;
        Ok(())
    }

    /// Queues WINDOW_UPDATE for a stream, or for the connection (0), by 1 to 2^31 - 1 bytes. Does nothing if the stream is
    /// gone. Fails if the window would exceed [`MAX_WINDOW_BYTES`].
    pub fn submit_window_update(&mut self, stream: u32, increment: u32) -> Result<(), Error> {
        let stream = id(stream)?;
        let increment = i32::try_from(increment).map_err(|_| Error::INVALID_ARGUMENT)?;
        // SAFETY: the session is alive.
        Error::check(unsafe {
            ffi::nghttp2_submit_window_update(self.session.as_ptr(), 0, stream, increment)
        })?;
        Ok(())
    }

    /// Queues a request and returns its stream.
    pub fn submit_request(&mut self, headers: &HeaderBlock, body: Body<'_>) -> Result<u32, Error> {
        let provider = (!body.is_empty()).then(body_provider::<H>);
        self.retain(headers);
        // SAFETY: the session is alive; the header fields stay in place while `queued_headers` has them; the provider
        // is copied during the call, reads from `Bodies` by stream id and needs no pointer of its own.
        let stream = Error::check(unsafe {
            ffi::nghttp2_submit_request2(
                self.session.as_ptr(),
                ptr::null(),
                headers.as_ptr(),
                headers.len(),
                provider.as_ref().map_or(ptr::null(), ptr::from_ref),
                ptr::null_mut(),
            )
        })?;
        if !body.is_empty() {
            self.context_mut().bodies.insert(stream as u32, body);
        }
        Ok(stream as u32)
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
        // SAFETY: as in `submit_request`.
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

    /// How many bytes [`Session::send_body`] would accept now: 0 if the stream is gone or its body is not streamed.
    pub fn body_room(&self, stream: u32) -> usize {
        // SAFETY: as in `handler`.
        unsafe { (*self.context.as_ptr()).bodies.room(stream) }
    }

    /// Whether the stream has a streamed body that has not ended.
    pub fn has_body(&self, stream: u32) -> bool {
        // SAFETY: as in `handler`.
        unsafe { (*self.context.as_ptr()).bodies.is_streamed(stream) }
    }

    /// Accepts bytes of a streamed body, as many as there is room for, and returns how many.
    pub fn send_body(&mut self, stream: u32, bytes: &[u8]) -> Result<usize, Error> {
        let (accepted, must_resume) = self.context_mut().bodies.add(stream, bytes);
        if must_resume {
            self.resume(id(stream)?)?;
        }
        Ok(accepted)
    }

    /// Ends a streamed body after the bytes accepted so far.
    pub fn end_body(&mut self, stream: u32) -> Result<(), Error> {
        self.end(stream, None)
    }

    /// Ends a streamed body after the bytes accepted so far, followed by these trailers.
    pub fn end_body_with(&mut self, stream: u32, trailers: &HeaderBlock) -> Result<(), Error> {
        self.end(stream, Some(trailers.clone()))
    }

    fn end(&mut self, stream: u32, trailers: Option<HeaderBlock>) -> Result<(), Error> {
        if self.context_mut().bodies.end(stream, trailers) {
            self.resume(id(stream)?)?;
        }
        Ok(())
    }

    /// Makes nghttp2 ask again for a body that had no bytes available.
    fn resume(&mut self, stream: i32) -> Result<(), Error> {
        // SAFETY: the session is alive.
        let code = unsafe { ffi::nghttp2_session_resume_data(self.session.as_ptr(), stream) };
        match code {
            // The stream is gone, or an RST_STREAM for it is queued: its body is no longer needed.
            ffi::NGHTTP2_ERR_INVALID_ARGUMENT => Ok(()),
            code => Error::check(code).map(drop),
        }
    }

    /// Queues RST_STREAM.
    pub fn submit_reset(&mut self, stream: u32, code: u32) -> Result<(), Error> {
        let stream = id(stream)?;
        // SAFETY: the session is alive.
        Error::check(unsafe {
            ffi::nghttp2_submit_rst_stream(self.session.as_ptr(), 0, stream, code)
        })?;
        Ok(())
    }

    /// Queues GOAWAY: streams up to `last` may complete, later ones are refused.
    pub fn submit_goaway(&mut self, last: u32, code: u32) -> Result<(), Error> {
        let last = id(last)?;
        // SAFETY: the session is alive; there is no debug data.
        Error::check(unsafe {
            ffi::nghttp2_submit_goaway(self.session.as_ptr(), 0, last, code, ptr::null(), 0)
        })?;
        Ok(())
    }

    /// Ends the session with GOAWAY, for a peer that broke a rule nghttp2 does not know.
    pub fn terminate(&mut self, code: u32) -> Result<(), Error> {
        // SAFETY: the session is alive.
        Error::check(unsafe {
            ffi::nghttp2_session_terminate_session(self.session.as_ptr(), code)
        })?;
        Ok(())
    }

    /// The last stream of the peer that was processed.
    pub fn last_processed_stream(&self) -> u32 {
        // SAFETY: the session is alive; the function only looks.
        unsafe { ffi::nghttp2_session_get_last_proc_stream_id(self.session.as_ptr()) as u32 }
    }

    /// Processes bytes from the peer. An error ends the session. A peer's connection error that nghttp2 handles itself does
    /// not return an error (see [`Handler::goaway_sending`]).
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the session is alive and `bytes` is readable; the callbacks run during this call use the context, to
        // which no reference exists now.
        let taken = unsafe {
            ffi::nghttp2_session_mem_recv2(self.session.as_ptr(), bytes.as_ptr(), bytes.len())
        };
        self.context_mut().resume_panic();
        // Fewer would mean that a callback had paused the session; none does.
        let taken = Error::check_size(taken)?;
        debug_assert_eq!(
            taken,
            bytes.len(),
            "nghttp2 takes everything unless it is paused"
        );
        Ok(())
    }

    /// Appends the next frame that can be sent now and returns its size; 0 if there is no such frame.
    pub fn send(&mut self, out: &mut Vec<u8>) -> Result<usize, Error> {
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
            // Every header section is serialised, so nghttp2 holds no pointers to them any more.
            self.context_mut().queued_headers.clear();
        }
        Ok(len)
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
        // SAFETY: the session is alive; the function only looks.
        unsafe { ffi::nghttp2_session_want_read(self.session.as_ptr()) != 0 }
    }

    /// Whether [`Session::send`] would produce something; false also while windows are exhausted.
    pub fn wants_write(&self) -> bool {
        // SAFETY: the session is alive; the function only looks.
        unsafe { ffi::nghttp2_session_want_write(self.session.as_ptr()) != 0 }
    }

    /// The peer's SETTINGS_MAX_FRAME_SIZE, in bytes.
    pub fn peer_max_frame_bytes(&self) -> u32 {
        // SAFETY: the session is alive; the function only looks.
        unsafe {
            ffi::nghttp2_session_get_remote_settings(
                self.session.as_ptr(),
                ffi::NGHTTP2_SETTINGS_MAX_FRAME_SIZE,
            )
        }
    }

    /// The number of queued frames other than DATA.
    pub fn queued_frames(&self) -> usize {
        // SAFETY: the session is alive; the function only looks.
        unsafe { ffi::nghttp2_session_get_outbound_queue_size(self.session.as_ptr()) }
    }

    /// Whether this client session can still open streams: it received no GOAWAY, had no connection error, and has stream
    /// ids left.
    pub fn is_request_allowed(&self) -> bool {
        // SAFETY: the session is alive; the function only looks.
        unsafe { ffi::nghttp2_session_check_request_allowed(self.session.as_ptr()) != 0 }
    }

    /// The peer's SETTINGS_MAX_CONCURRENT_STREAMS: the assumed value until its SETTINGS arrive, 2^32 - 1 if they set no
    /// limit.
    pub fn peer_max_concurrent_streams(&self) -> u32 {
        // SAFETY: the session is alive; the function only looks.
        unsafe {
            ffi::nghttp2_session_get_remote_settings(
                self.session.as_ptr(),
                ffi::NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
            )
        }
    }

    /// How much DATA we may send on a stream, or on the connection (0). Negative if the peer has shrunk its window; also -1
    /// if the stream is not open.
    pub fn window_to_send(&self, stream: u32) -> i32 {
        // SAFETY: the session is alive; the functions only look.
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

    /// How much DATA the peer may send on a stream, or on the connection (0), once it has received every queued
    /// WINDOW_UPDATE; 0 if the stream is not open.
    pub fn window_to_receive(&self, stream: u32) -> u32 {
        // SAFETY: the session is alive; the functions only look.
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

    /// How much of that window was used and not returned by WINDOW_UPDATE; 0 if the stream is not open.
    pub fn used_window(&self, stream: u32) -> u32 {
        // SAFETY: the session is alive; the functions only look.
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
