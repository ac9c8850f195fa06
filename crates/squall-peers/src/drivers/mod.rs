//! One file for each program: what it speaks, its names for settings, and its smallest faithful configuration.
//!
//! Each keeps the program's own defaults unless its file explains why not; docs/PEERS.md has all of that in one table.

mod caddy;
mod envoy;
mod envoy_tls;
pub(crate) mod generic;
mod haproxy;
mod nghttpd;
mod nghttpx;
mod nginx;

use crate::driver::Driver;

/// Every program that squall knows.
pub fn drivers() -> [&'static dyn Driver; 6] {
    [
        &nginx::Nginx,
        &haproxy::Haproxy,
        &envoy::Envoy,
        &nghttpx::Nghttpx,
        &nghttpd::Nghttpd,
        &caddy::Caddy,
    ]
}

/// The driver of this name.
pub fn driver(name: &str) -> Option<&'static dyn Driver> {
    drivers().into_iter().find(|driver| driver.name() == name)
}
