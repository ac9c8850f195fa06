//! One HTTP/2 session: bytes in, bytes out, messages submitted.
//!
//! It opens no socket, and it decides nothing: the handler hears what happens, the owner submits.

use std::mem;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use libnghttp2_sys as ffi;

use crate::callbacks::{Callbacks, Context, body_provider};
use crate::error::Error;
use crate::handler::Handler;
use crate::headers::HeaderBlock;

/// The largest flow-control window (RFC 9113, section 6.9.1).
pub const MAX_WINDOW_BYTES: u32 = i32::MAX as u32;

/// An entry of a SETTINGS frame (RFC 9113, section 6.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// SETTINGS_ENABLE_PUSH.
    EnablePush(bool),
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    MaxConcurrentStreams(u32),
    /// SETTINGS_INITIAL_WINDOW_SIZE, in bytes.
    InitialWindowBytes(u32),
}

/// A client's or server's HTTP/2 session.
pub struct Session<H: Handler> {
    session: NonNull<ffi::nghttp2_session>,
    /// Made from a `Box`; nghttp2 holds the same pointer as its user data.
    context: NonNull<Context<H>>,
}

// SAFETY: nghttp2 has no state outside its session and no tie to a thread, and the context, owned by this
// value alone, holds nothing but the handler, shared bodies (`Arc<[u8]>`) and a panic's payload.
unsafe impl<H: Handler + Send> Send for Session<H> {}

/// Which constructor of nghttp2 to use.
type Constructor = unsafe extern "C" fn(
    *mut *mut ffi::nghttp2_session,
    *const ffi::nghttp2_session_callbacks,
    *mut std::os::raw::c_void,
    *const ffi::nghttp2_option,
) -> std::os::raw::c_int;

impl<H: Handler> Session<H> {
    /// A client's session. Its output begins with the connection preface. Until the server's SETTINGS
    /// arrive, `assumed_max_concurrent_streams` stands for the server's limit.
    pub fn client(handler: H, assumed_max_concurrent_streams: u32) -> Result<Self, Error> {
        let options = Options::new()?;
        // SAFETY: the options were just made.
        unsafe {
            ffi::nghttp2_option_set_peer_max_concurrent_streams(
                options.0,
                assumed_max_concurrent_streams,
            );
        }
        Session::new(handler, ffi::nghttp2_session_client_new2, &options)
    }

    /// A server's session. It expects the connection preface.
    pub fn server(handler: H) -> Result<Self, Error> {
        Session::new(handler, ffi::nghttp2_session_server_new2, &Options::new()?)
    }

    fn new(handler: H, constructor: Constructor, options: &Options) -> Result<Self, Error> {
        let callbacks = Callbacks::new::<H>()?;
        let mut context = Box::new(Context::new(handler));
        let mut session = ptr::null_mut();
        let user_data = (&raw mut *context).cast();
        // SAFETY: every pointer is valid during the call; nghttp2 copies callbacks and options, and does
        // not look into its user data.
        Error::check(unsafe {
            constructor(&raw mut session, callbacks.as_ptr(), user_data, options.0)
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

    /// The handler, to change it between calls.
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

    /// Sets how much the peer may send on the whole connection before an update: at most
    /// [`MAX_WINDOW_BYTES`]. A larger window is announced by WINDOW_UPDATE; a smaller one comes into
    /// force as the first 65,535 bytes are used up.
    pub fn set_connection_window(&mut self, bytes: u32) -> Result<(), Error> {
        let bytes =
            i32::try_from(bytes).map_err(|_| Error::Library(ffi::NGHTTP2_ERR_INVALID_ARGUMENT))?;
        // SAFETY: the session is alive.
        Error::check(unsafe {
            ffi::nghttp2_session_set_local_window_size(self.session.as_ptr(), 0, 0, bytes)
        })?;
        Ok(())
    }

    /// Queues a request, with a body if there is one and it is not empty, and returns its stream.
    pub fn submit_request(
        &mut self,
        headers: &HeaderBlock,
        body: Option<&Arc<[u8]>>,
    ) -> Result<u32, Error> {
        let body = body.filter(|body| !body.is_empty());
        let provider = body.map(|_| body_provider::<H>());
        // SAFETY: the session is alive; the header fields are copied during the call and so is the
        // provider, which reads from `Bodies` by stream id and needs no pointer of its own.
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
        if let Some(body) = body {
            self.context_mut().bodies.insert(stream, Arc::clone(body));
        }
        Ok(stream as u32)
    }

    /// Queues the response of a stream that the client opened and that is still open, with a body if
    /// there is one and it is not empty.
    pub fn submit_response(
        &mut self,
        stream: u32,
        headers: &HeaderBlock,
        body: Option<&Arc<[u8]>>,
    ) -> Result<(), Error> {
        let stream =
            i32::try_from(stream).map_err(|_| Error::Library(ffi::NGHTTP2_ERR_INVALID_ARGUMENT))?;
        let body = body.filter(|body| !body.is_empty());
        let provider = body.map(|_| body_provider::<H>());
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
        if let Some(body) = body {
            self.context_mut().bodies.insert(stream, Arc::clone(body));
        }
        Ok(())
    }

    /// Queues RST_STREAM. squall's own sides never do; the peers that they are tested against do.
    pub fn submit_reset(&mut self, stream: u32, code: u32) -> Result<(), Error> {
        let stream =
            i32::try_from(stream).map_err(|_| Error::Library(ffi::NGHTTP2_ERR_INVALID_ARGUMENT))?;
        // SAFETY: the session is alive.
        Error::check(unsafe {
            ffi::nghttp2_submit_rst_stream(self.session.as_ptr(), 0, stream, code)
        })?;
        Ok(())
    }

    /// Queues GOAWAY: open streams may end, new ones are refused. As [`Session::submit_reset`], for the
    /// peers of tests.
    pub fn submit_goaway(&mut self, code: u32) -> Result<(), Error> {
        // SAFETY: the session is alive; there is no debug data.
        Error::check(unsafe {
            let last = ffi::nghttp2_session_get_last_proc_stream_id(self.session.as_ptr());
            ffi::nghttp2_submit_goaway(self.session.as_ptr(), 0, last, code, ptr::null(), 0)
        })?;
        Ok(())
    }

    /// Takes bytes from the peer. An error is the end of the session; a peer's connection error that
    /// nghttp2 answers by itself is none (see [`Handler::goaway_sending`]).
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the session is alive and `bytes` is readable; the callbacks run during this call use
        // the context, to which no reference exists now.
        let taken = unsafe {
            ffi::nghttp2_session_mem_recv2(self.session.as_ptr(), bytes.as_ptr(), bytes.len())
        };
        self.context_mut().resume_panic();
        // Fewer would mean that a callback asked for a pause: none does.
        let taken = Error::check_size(taken)?;
        debug_assert_eq!(
            taken,
            bytes.len(),
            "nghttp2 takes everything unless it is paused"
        );
        Ok(())
    }

    /// Appends the next frame that can be sent now and returns its size; 0 if there is none.
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
        Ok(len)
    }

    /// False when the session has no more use for bytes of the peer.
    pub fn wants_read(&self) -> bool {
        // SAFETY: the session is alive; the function only looks.
        unsafe { ffi::nghttp2_session_want_read(self.session.as_ptr()) != 0 }
    }

    /// True when [`Session::send`] would produce something; false also while windows are exhausted.
    pub fn wants_write(&self) -> bool {
        // SAFETY: the session is alive; the function only looks.
        unsafe { ffi::nghttp2_session_want_write(self.session.as_ptr()) != 0 }
    }

    /// Whether this client's session can still open streams: no GOAWAY came, no connection error
    /// happened, and there are stream ids left.
    pub fn is_request_allowed(&self) -> bool {
        // SAFETY: the session is alive; the function only looks.
        unsafe { ffi::nghttp2_session_check_request_allowed(self.session.as_ptr()) != 0 }
    }

    /// SETTINGS_MAX_CONCURRENT_STREAMS of the peer: the assumed one until its SETTINGS arrive, 2^32 - 1
    /// if they do not limit it.
    pub fn peer_max_concurrent_streams(&self) -> u32 {
        // SAFETY: the session is alive; the function only looks.
        unsafe {
            ffi::nghttp2_session_get_remote_settings(
                self.session.as_ptr(),
                ffi::NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
            )
        }
    }
}

impl<H: Handler> Drop for Session<H> {
    fn drop(&mut self) {
        // SAFETY: both were made in `new` and are freed only here, the session, which refers to the
        // context, first. Deleting a session calls nothing back.
        unsafe {
            ffi::nghttp2_session_del(self.session.as_ptr());
            mem::drop(Box::from_raw(self.context.as_ptr()));
        }
    }
}

impl Setting {
    fn entry(self) -> ffi::nghttp2_settings_entry {
        let (id, value) = match self {
            Setting::EnablePush(on) => (ffi::NGHTTP2_SETTINGS_ENABLE_PUSH, u32::from(on)),
            Setting::MaxConcurrentStreams(n) => (ffi::NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, n),
            Setting::InitialWindowBytes(n) => (ffi::NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, n),
        };
        ffi::nghttp2_settings_entry {
            settings_id: id as i32,
            value,
        }
    }
}

/// Owns nghttp2's options until a session has copied them.
struct Options(*mut ffi::nghttp2_option);

impl Options {
    fn new() -> Result<Options, Error> {
        let mut option = ptr::null_mut();
        // SAFETY: `option` is a valid place for the pointer; on success it is ours to delete.
        Error::check(unsafe { ffi::nghttp2_option_new(&raw mut option) })?;
        Ok(Options(option))
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: made by `nghttp2_option_new` and deleted only here.
        unsafe { ffi::nghttp2_option_del(self.0) }
    }
}
