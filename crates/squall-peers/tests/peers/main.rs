//! Drivers against the real programs, on loopback; `scripts/peers` installs them. A test whose program is missing
//! reports that and is skipped, unless SQUALL_REQUIRE_PEERS=1.

mod asking;
mod browser;
mod clients;
mod ends;
mod hosts;
mod proxies;
mod refusals;
mod servers;
mod settings;
mod several;
mod support;
