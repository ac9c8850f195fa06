//! nghttpd (<https://nghttp2.org/documentation/nghttpd.1.html>): file server, HTTP/2 only. It reads a request's body
//! before it responds, unless configured otherwise.
//!
//! It has no configuration file: each line of a recipe's `extra` is an option.

use squall_base::Side;
use squall_base::plan::Protocol;

use crate::driver::{
    Driver, Refusal, front_is_one_of, refuse_key_log, refuse_order, setting_refusal,
};
use crate::find::{Version, installable};
use crate::order::{Invocation, Order, Setting};

const NAME: &str = "nghttpd";

#[derive(Debug)]
pub(crate) struct Nghttpd;

installable!(Nghttpd, NAME, install: "apt install nghttp2-server", version: &["--version"]);

impl Driver for Nghttpd {
    fn check_protocols(&self, front: Protocol, upstream: Option<Protocol>) -> Result<(), Refusal> {
        if upstream.is_some() {
            return Err(Refusal::NoProxy(NAME.to_owned()));
        }
        front_is_one_of(NAME, front, &[Protocol::H2c, Protocol::H2])
    }

    fn configure(&self, order: &Order, _version: &Version) -> Result<Invocation, Refusal> {
        let Some(answer) = &order.answer else {
            return Err(Refusal::NoProxy(NAME.to_owned()));
        };
        if answer.status != 200 {
            return refuse_order(NAME, "it serves files, with status 200 only");
        }
        refuse_key_log(NAME, order)?;
        let mut invocation = Invocation::default();
        invocation.body(&document(&answer.target)?, &answer.body);
        invocation.arguments(["--htdocs=documents"]);
        invocation.argument(format!("--address={}", order.listen.ip()));
        invocation.argument(format!("--workers={}", order.threads));
        for (&(side, setting), &value) in &order.settings {
            let argument = argument(setting, value);
            invocation.argument(
                argument.map_err(|why| setting_refusal(NAME, side, setting, value, &why))?,
            );
        }
        if !order.front.is_secure() {
            invocation.argument("--no-tls");
        }
        let extra = order.extra.as_deref().unwrap_or_default().lines();
        for option in extra.map(str::trim).filter(|line| !line.is_empty()) {
            invocation.argument(option);
        }
        invocation.argument(order.listen.port().to_string());
        if let Some(certificate) = order.front_certificate() {
            invocation.argument(certificate.key.clone());
            invocation.argument(certificate.chain.clone());
        }
        debug_assert!(order.settings.keys().all(|(side, _)| *side == Side::Server));
        Ok(invocation)
    }
}

/// The file that it serves for a target: without the query, and index.html for a path that ends with a slash.
fn document(target: &str) -> Result<String, Refusal> {
    let path = target.split('?').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/.-_".contains(c);
    if !path.starts_with('/')
        || !path.chars().all(plain)
        || path.contains("//")
        || path.contains("..")
    {
        let why = "it serves files, and its target must be a path of letters, digits, '.', '-', '_' and '/'";
        return refuse_order(NAME, why);
    }
    let index = if path.ends_with('/') {
        "index.html"
    } else {
        ""
    };
    Ok(format!("documents{path}{index}"))
}

fn argument(setting: Setting, value: u64) -> Result<String, String> {
    match setting {
        Setting::StreamWindow => Ok(format!("--window-bits={}", bits(value)?)),
        Setting::ConnectionWindow => Ok(format!("--connection-window-bits={}", bits(value)?)),
        Setting::MaxConcurrentStreams => Ok(format!("--max-concurrent-streams={value}")),
        Setting::HeaderTableSize => Ok(format!("--header-table-size={value}")),
        Setting::MaxFrameSize => Err("it always announces 16384".to_owned()),
        Setting::DataSize => Err("it fills frames".to_owned()),
        Setting::RequestsPerConnection => Err("it never ends a connection for that".to_owned()),
        Setting::SmallRecords => Err("it has no option for that".to_owned()),
    }
}

/// nghttpd takes a window as a number of bits.
fn bits(window: u64) -> Result<u32, String> {
    (16..=31)
        .find(|bits| (1 << bits) - 1 == window)
        .ok_or_else(|| {
            let bits = (16..=31)
                .find(|bits| (1_u64 << bits) > window)
                .unwrap_or(31);
            format!(
                "it takes 2^n - 1 with n from 16 to 31 only, such as {}",
                (1_u64 << bits) - 1
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_converted_to_numbers_of_bits() {
        assert_eq!(bits(65_535), Ok(16));
        assert_eq!(bits((1 << 31) - 1), Ok(31));
        for window in [0, 1, 65_536, 1 << 31] {
            assert!(bits(window).is_err(), "{window}");
        }
    }

    #[test]
    fn targets_outside_of_the_documents_folder_are_refused() {
        assert_eq!(document("/?a=b").unwrap(), "documents/index.html");
        assert_eq!(document("/a/b.bin").unwrap(), "documents/a/b.bin");
        for target in ["/../key.pem", "//etc/passwd", "a", "/%2e"] {
            assert!(document(target).is_err(), "{target}");
        }
    }
}
