//! Decides when windows are updated. The policy of a plan applies to the connection and to each stream alike.
//!
//! This module counts and decides; the session sends the WINDOW_UPDATE frames. It sends only those submitted here,
//! except that nghttp2 updates on its own when padding and DATA of closed streams alone fill half a window. DATA is
//! counted including padding (RFC 9113, section 6.9.1), when it is received or when the owner has consumed it.

use squall_base::plan::WindowUpdates;
use squall_nghttp2::{Error, Http2Session, MAX_WINDOW_BYTES};

use super::settings::{INITIAL_WINDOW_BYTES, Windows};
use crate::streams::Streams;

/// While more frames than this are queued, updates are merged instead of queued.
const MAX_QUEUED_FRAMES: usize = 1_000;

/// Up to this many updates, each for one DATA frame, are sent separately.
const MAX_SEPARATE: u64 = 64;

/// Stands for the connection in place of a stream.
const CONNECTION: u32 = 0;

/// When received bytes may be returned to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consumption {
    /// Immediately.
    AtOnce,
    /// Once the owner has consumed them.
    ByOwner,
}

/// A received piece of a DATA frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataPiece {
    pub(super) stream: u32,
    /// Whether more may arrive on the stream.
    pub(super) is_open: bool,
    /// Its length, padding included.
    pub(super) len_bytes: u64,
    /// The part of it that was delivered to the owner.
    pub(super) delivered_bytes: u64,
    /// Whether it completes the frame.
    pub(super) ends_frame: bool,
}

#[derive(Debug)]
pub(super) struct Updates {
    policy: WindowUpdates,
    windows: Windows,
    consumption: Consumption,
    connection: Account,
    streams: Streams<u32, Account>,
    /// Some updates wait until fewer frames are queued.
    has_held_updates: bool,
}

/// What is owed to the sender for one window.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Bytes that were used and not returned.
    used_bytes: i64,
    /// Updates owed: one per DATA frame, or the first grant and one per used-up grant.
    grants: u64,
    has_begun: bool,
    /// Bytes that were delivered to the owner but not consumed.
    unconsumed_bytes: u64,
    /// No more DATA will arrive.
    is_over: bool,
}

impl Updates {
    pub(super) fn new(policy: WindowUpdates, windows: Windows) -> Updates {
        // The part of the initial window that exceeds the configured one is never returned.
        let excess_bytes = INITIAL_WINDOW_BYTES.saturating_sub(windows.connection_bytes);
        Updates {
            policy,
            windows,
            consumption: Consumption::AtOnce,
            connection: Account {
                used_bytes: -i64::from(excess_bytes),
                ..Account::default()
            },
            streams: Streams::default(),
            has_held_updates: false,
        }
    }

    /// Makes delivered bytes count only once the owner has consumed them.
    pub(super) fn wait_for_owner(&mut self) {
        self.consumption = Consumption::ByOwner;
    }

    /// Handles received DATA.
    pub(super) fn received<H>(
        &mut self,
        piece: DataPiece,
        session: &mut impl Http2Session<H>,
    ) -> Result<(), Error> {
        let delivered_bytes = match self.consumption {
            Consumption::AtOnce => 0,
            Consumption::ByOwner => piece.delivered_bytes,
        };
        let used_bytes = piece.len_bytes.saturating_sub(delivered_bytes);
        let policy = self.policy;
        let count = |account: &mut Account| {
            account.unconsumed_bytes += delivered_bytes;
            account.frame(policy, piece.ends_frame);
            account.used(policy, used_bytes);
        };
        count(&mut self.connection);
        if piece.is_open || delivered_bytes > 0 {
            let account = self.streams.find_or_insert(piece.stream);
            account.is_over = !piece.is_open;
            count(account);
        }
        self.submit_due(piece.stream, session)
    }

    /// Handles the owner having consumed bytes of a body.
    pub(super) fn consumed<H>(
        &mut self,
        stream: u32,
        n: u64,
        session: &mut impl Http2Session<H>,
    ) -> Result<(), Error> {
        let Some(account) = self.streams.find(stream) else {
            return Ok(());
        };
        let n = n.min(account.unconsumed_bytes);
        for account in [account, &mut self.connection] {
            account.unconsumed_bytes -= n;
            account.used(self.policy, n);
        }
        self.submit_due(stream, session)?;
        self.forget_if_over(stream);
        Ok(())
    }

    /// Handles a closed stream. If it failed, its unconsumed bytes count as consumed; otherwise the owner may still
    /// consume them.
    pub(super) fn closed<H>(
        &mut self,
        stream: u32,
        code: u32,
        session: &mut impl Http2Session<H>,
    ) -> Result<(), Error> {
        let Some(account) = self.streams.find(stream) else {
            return Ok(());
        };
        account.is_over = true;
        let rest = account.unconsumed_bytes;
        if code != 0 && rest > 0 {
            return self.consumed(stream, rest, session);
        }
        self.forget_if_over(stream);
        Ok(())
    }

    fn forget_if_over(&mut self, stream: u32) {
        if let Some(account) = self.streams.find(stream)
            && account.is_over
            && account.unconsumed_bytes == 0
        {
            self.streams.remove(stream);
        }
    }

    /// Submits updates that had to wait.
    pub(super) fn submit_held<H>(
        &mut self,
        session: &mut impl Http2Session<H>,
    ) -> Result<(), Error> {
        if !self.has_held_updates || session.queued_frames() >= MAX_QUEUED_FRAMES {
            return Ok(());
        }
        self.has_held_updates = false;
        let ids: Vec<u32> = self.streams.iter().map(|(id, _)| id).collect();
        self.submit_due(CONNECTION, session)?;
        for id in ids {
            self.submit_due(id, session)?;
        }
        Ok(())
    }

    /// Submits the updates due for the connection and for a stream.
    fn submit_due<H>(
        &mut self,
        stream: u32,
        session: &mut impl Http2Session<H>,
    ) -> Result<(), Error> {
        if session.queued_frames() >= MAX_QUEUED_FRAMES {
            self.has_held_updates = true;
            return Ok(());
        }
        let due = self
            .connection
            .take_due(self.policy, self.windows.connection_bytes);
        self.submit(CONNECTION, due, session)?;
        if let Some(account) = self.streams.find(stream)
            && !account.is_over
        {
            let due = account.take_due(self.policy, self.windows.stream_bytes);
            self.submit(stream, due, session)?;
        }
        Ok(())
    }

    fn submit<H>(
        &self,
        stream: u32,
        due: u64,
        session: &mut impl Http2Session<H>,
    ) -> Result<(), Error> {
        if due == 0 {
            return Ok(());
        }
        let room = match self.policy {
            // nghttp2 may already have returned padding on its own.
            WindowUpdates::Half | WindowUpdates::Every(_) => session.used_window(stream),
            _ => MAX_WINDOW_BYTES.saturating_sub(session.window_to_receive(stream)),
        };
        let mut left = due.min(u64::from(room)) as u32;
        // DATA frames consumed together still get one update each, unless they are a flood.
        let step = match self.policy {
            WindowUpdates::EachData(n) if due <= n.get().saturating_mul(MAX_SEPARATE) => {
                u32::try_from(n.get()).unwrap_or(u32::MAX).max(1)
            }
            _ => MAX_WINDOW_BYTES,
        };
        while left > 0 {
            let increment = left.min(step);
            session.submit_window_update(stream, increment)?;
            left -= increment;
        }
        Ok(())
    }
}

impl Account {
    /// Handles a piece of a DATA frame; the owner may still hold some of its bytes.
    fn frame(&mut self, policy: WindowUpdates, ends_frame: bool) {
        match policy {
            WindowUpdates::EachData(_) => self.grants += u64::from(ends_frame),
            WindowUpdates::Grant(_) if !self.has_begun => self.grants += 1,
            _ => {}
        }
        self.has_begun = true;
    }

    /// Marks bytes as ready to be returned.
    fn used(&mut self, policy: WindowUpdates, bytes: u64) {
        match policy {
            WindowUpdates::Half | WindowUpdates::Every(_) => self.used_bytes += bytes as i64,
            WindowUpdates::Grant(n) => {
                let n = n.get().max(1);
                self.used_bytes += bytes as i64;
                // Negative while the connection uses up the excess of its initial window.
                if let Ok(used) = u64::try_from(self.used_bytes) {
                    self.grants += used / n;
                    self.used_bytes = (used % n) as i64;
                }
            }
            WindowUpdates::EachData(_) | WindowUpdates::Never => {}
        }
    }

    /// Takes the increment that is due now; 0 if none is.
    fn take_due(&mut self, policy: WindowUpdates, window_bytes: u32) -> u64 {
        let used = u64::try_from(self.used_bytes).unwrap_or(0);
        match policy {
            WindowUpdates::Half if used >= u64::from(window_bytes / 2) => {
                self.used_bytes -= used as i64;
                used
            }
            WindowUpdates::Every(n) => {
                // Several multiples of `n` may arrive at a time.
                let due = used - used % n.get().max(1);
                self.used_bytes -= due as i64;
                due
            }
            // Only once the owner holds no bytes, so that it can slow the peer down.
            WindowUpdates::EachData(n) if self.unconsumed_bytes == 0 => {
                std::mem::take(&mut self.grants).saturating_mul(n.get())
            }
            WindowUpdates::Grant(n) => std::mem::take(&mut self.grants).saturating_mul(n.get()),
            WindowUpdates::Half | WindowUpdates::EachData(_) | WindowUpdates::Never => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use squall_base::Bytes;

    use super::*;

    /// The increment due after each of these pieces, for a window of 100 bytes.
    fn dues(policy: WindowUpdates, pieces: &[(u64, bool)]) -> Vec<u64> {
        let mut account = Account::default();
        pieces
            .iter()
            .map(|(bytes, ends_frame)| {
                account.frame(policy, *ends_frame);
                account.used(policy, *bytes);
                account.take_due(policy, 100)
            })
            .collect()
    }

    #[test]
    fn each_policy_updates_at_its_own_times_by_its_own_amounts() {
        let n = Bytes::new;
        let pieces = [(10, true), (30, false), (20, true), (70, true), (0, true)];
        let cases = [
            (WindowUpdates::Half, [0, 0, 60, 70, 0]),
            (WindowUpdates::Every(n(25)), [0, 25, 25, 75, 0]),
            (WindowUpdates::EachData(n(7)), [7, 0, 7, 7, 7]),
            (WindowUpdates::Grant(n(50)), [50, 0, 50, 50, 0]),
            (WindowUpdates::Never, [0; 5]),
        ];
        for (policy, expected) in cases {
            assert_eq!(dues(policy, &pieces), expected, "{policy:?}");
        }
    }

    #[test]
    fn per_frame_updates_wait_until_the_owner_holds_no_bytes() {
        let policy = WindowUpdates::EachData(Bytes::new(5));
        let mut account = Account {
            unconsumed_bytes: 1,
            ..Account::default()
        };
        account.frame(policy, true);
        account.frame(policy, true);
        assert_eq!(account.take_due(policy, 100), 0);
        account.unconsumed_bytes = 0;
        assert_eq!(account.take_due(policy, 100), 10);
    }
}
