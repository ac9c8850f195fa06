//! Lists without repetitions, in the order in which their entries first occur.
//!
//! For the few names and conditions of a run: each entry is compared with all before it.

pub(crate) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}
