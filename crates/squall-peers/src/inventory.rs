//! Looks for the programs that squall knows, as `squall doctor --peers` shows them.
//!
//! How a program is found and asked for its version is in `find`; the programs themselves are in `drivers` and `client`.

use crate::client::clients;
use crate::drivers::drivers;
use crate::find::{FindError, InstalledProgram, SearchPath};

/// Every program that squall knows, stations first, then clients, each with its file or why it is missing.
pub fn inventory(search: &SearchPath) -> Vec<(String, Result<InstalledProgram, FindError>)> {
    let stations = drivers()
        .into_iter()
        .map(|driver| (driver.name().to_owned(), driver.find(search)));
    let clients = clients()
        .into_iter()
        .map(|client| (client.name().to_owned(), client.find(search)));
    stations.chain(clients).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn missing_programs_are_named_with_how_to_install_them() {
        let nowhere = SearchPath::only(vec![PathBuf::from("/nonexistent")]);
        for (name, found) in inventory(&nowhere) {
            let said = found.expect_err("it is nowhere").to_string();
            assert!(said.contains(&name) && said.contains("install"), "{said}");
        }
    }
}
