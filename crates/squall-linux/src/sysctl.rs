//! Sysctls under /proc/sys, in the network namespace of the calling thread.

use std::fs;

use crate::error::SetupError;

fn path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// The value of sysctl `name`, such as `net.ipv4.tcp_rmem`.
pub fn read(name: &str) -> Result<String, SetupError> {
    fs::read_to_string(path(name))
        .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        .map_err(|source| SetupError::Sysctl {
            action: "read",
            name: name.to_owned(),
            source,
        })
}

/// Sets sysctl `name`.
pub fn write(name: &str, value: &str) -> Result<(), SetupError> {
    fs::write(path(name), value).map_err(|source| SetupError::Sysctl {
        action: "write",
        name: name.to_owned(),
        source,
    })
}
