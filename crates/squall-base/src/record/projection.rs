//! Rows of a table with only some of their columns.
//!
//! Reading a column costs time, so a reader of millions of rows names the columns that it uses. [`projection!`] makes
//! the row type and the list of columns from one declaration: a column that was not read has no field, so code that
//! uses it does not compile. squall-record knows which columns a file has and reads them.
//!
//! [`projection!`]: crate::projection

/// A row type with some columns of a table. [`projection!`](crate::projection) declares one.
pub trait Projection: Sized {
    /// The whole row.
    type Row;

    /// The columns that [`Projection::of`] reads, by their names in the table. All others may be missing from the row
    /// that it gets, in which case they are zero.
    const COLUMNS: &'static [&'static str];

    /// The projected part of a whole row.
    fn of(row: &Self::Row) -> Self;
}

/// Declares a [`Projection`](crate::record::Projection): a struct whose fields each name the columns that they are read
/// from.
///
/// ```
/// use squall_base::Time;
/// use squall_base::record::PacketRecord;
///
/// squall_base::projection! {
///     /// When a packet arrived, and how long it was.
///     pub struct Passing of row: PacketRecord {
///         pub arrived: Time = row.arrived, "arrived_ns";
///         pub length: u16 = row.length, "length_bytes";
///     }
/// }
///
/// fn is_late(row: &Passing) -> bool {
///     row.arrived > Time::from_nanos(1_000)
/// }
/// ```
///
/// A field that is computed from several columns lists them all.
#[macro_export]
macro_rules! projection {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident of $row:ident: $Row:ty {
            $(
                $(#[$field_attribute:meta])*
                $visibility:vis $field:ident: $Cell:ty = $cell:expr, $($column:literal),+;
            )+
        }
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $(
                $(#[$field_attribute])*
                $visibility $field: $Cell,
            )+
        }

        impl $crate::record::Projection for $name {
            type Row = $Row;

            const COLUMNS: &'static [&'static str] = &[$($($column),+),+];

            #[inline]
            fn of($row: &$Row) -> $name {
                $name {
                    $($field: $cell,)+
                }
            }
        }

        impl From<&$Row> for $name {
            #[inline]
            fn from(row: &$Row) -> $name {
                $crate::record::Projection::of(row)
            }
        }
    };
}
