//! What a session is given at its start: the entries of its SETTINGS, and options for nghttp2.

use std::ptr;

use libnghttp2_sys as ffi;

use crate::error::Error;

/// An entry of a SETTINGS frame (RFC 9113, section 6.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// SETTINGS_HEADER_TABLE_SIZE, in bytes.
    HeaderTableBytes(u32),
    /// SETTINGS_ENABLE_PUSH.
    EnablePush(bool),
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    MaxConcurrentStreams(u32),
    /// SETTINGS_INITIAL_WINDOW_SIZE, in bytes.
    InitialWindowBytes(u32),
    /// SETTINGS_MAX_FRAME_SIZE, in bytes: 2^14 to 2^24 - 1.
    MaxFrameBytes(u32),
    /// SETTINGS_MAX_HEADER_LIST_SIZE, in bytes.
    MaxHeaderListBytes(u32),
}

impl Setting {
    pub(crate) fn entry(self) -> ffi::nghttp2_settings_entry {
        let (id, value) = match self {
            Setting::HeaderTableBytes(n) => (ffi::NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, n),
            Setting::EnablePush(on) => (ffi::NGHTTP2_SETTINGS_ENABLE_PUSH, u32::from(on)),
            Setting::MaxConcurrentStreams(n) => (ffi::NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, n),
            Setting::InitialWindowBytes(n) => (ffi::NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, n),
            Setting::MaxFrameBytes(n) => (ffi::NGHTTP2_SETTINGS_MAX_FRAME_SIZE, n),
            Setting::MaxHeaderListBytes(n) => (ffi::NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, n),
        };
        ffi::nghttp2_settings_entry {
            settings_id: id as i32,
            value,
        }
    }

    /// The payload of a SETTINGS frame, as an upgrade from HTTP/1.1 sends it in HTTP2-Settings (RFC 7540, section 3.2.1).
    pub fn payload(settings: &[Setting]) -> Result<Vec<u8>, Error> {
        let entries: Vec<_> = settings.iter().map(|setting| setting.entry()).collect();
        let mut payload = vec![0; entries.len() * SETTING_BYTES];
        // SAFETY: both pointers are valid for the given lengths and are not kept.
        let len = Error::check_size(unsafe {
            ffi::nghttp2_pack_settings_payload2(
                payload.as_mut_ptr(),
                payload.len(),
                entries.as_ptr(),
                entries.len(),
            )
        })?;
        payload.truncate(len);
        Ok(payload)
    }
}

/// The size of one entry (RFC 9113, section 6.5.1).
const SETTING_BYTES: usize = 6;

/// Options for a session. nghttp2's limits against floods keep their defaults: 8 CONTINUATION frames per header section,
/// 32 entries per SETTINGS frame, 1,000 queued replies, and a burst of 1,000 resets or other "glitches", then 33 per second.
///
/// The owner updates windows, through [`crate::Http2Session::submit_window_update`]. nghttp2 itself only returns padding,
/// and DATA of closed streams, once they fill half of a window that the owner has not updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// For an engine of a client: the assumed SETTINGS_MAX_CONCURRENT_STREAMS of the server until its SETTINGS arrive.
    pub assumed_max_concurrent_streams: u32,
    /// The largest payload of a sent DATA frame, within the peer's SETTINGS_MAX_FRAME_SIZE; at least 1.
    pub data_bytes: u32,
}

impl Default for Options {
    /// nghttp2's defaults.
    fn default() -> Options {
        Options {
            assumed_max_concurrent_streams: 100,
            data_bytes: 16_384,
        }
    }
}

/// Owns nghttp2's options until a session has copied them.
pub(crate) struct RawOptions(*mut ffi::nghttp2_option);

impl RawOptions {
    pub(crate) fn new() -> Result<RawOptions, Error> {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is a valid place for the pointer; on success we own it.
        Error::check(unsafe { ffi::nghttp2_option_new(&raw mut raw) })?;
        // SAFETY: the options were just made.
        unsafe { ffi::nghttp2_option_set_no_auto_window_update(raw, 1) };
        Ok(RawOptions(raw))
    }

    pub(crate) fn as_ptr(&self) -> *const ffi::nghttp2_option {
        self.0
    }
}

impl Drop for RawOptions {
    fn drop(&mut self) {
        // SAFETY: made by `nghttp2_option_new` and deleted only here.
        unsafe { ffi::nghttp2_option_del(self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_holds_six_bytes_for_each_setting() {
        let settings = [Setting::EnablePush(false), Setting::MaxFrameBytes(16_384)];
        let payload = Setting::payload(&settings).unwrap();
        assert_eq!(payload, [0, 2, 0, 0, 0, 0, 0, 5, 0, 0, 0x40, 0]);
        assert!(Setting::payload(&[Setting::MaxFrameBytes(1)]).is_err());
        assert!(Setting::payload(&[Setting::InitialWindowBytes(1 << 31)]).is_err());
    }
}
