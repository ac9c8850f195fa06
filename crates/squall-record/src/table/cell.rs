//! The types that fields of rows have, each with the column that stores it, and the declaration of a table ([`table!`]).
//!
//! Types that only one table uses, and those that take several columns, are in the module of their table. `packing` and
//! `columns` work on whole columns, this module on one cell of a row.

use std::cell;

use arrow_array::ArrowPrimitiveType;
use arrow_schema::DataType;
use squall_base::plan::Protocol;
use squall_base::record::{
    Direction, Fate, FrameLayer, Outcome, PacketClass, Phase, Projection, Repair, Side, Way,
};

use super::columns::{Columns, FlagColumn, NullableColumn, Number, RequiredColumn, WordColumn};
use super::packing::{CellWriteError, RowGroup};
use super::schema::{Column, Packing, Role};
use crate::RecordError;

/// The result of appending cells.
pub(super) type EncodeResult = Result<(), CellWriteError>;

/// The column of a type, opened for reading.
pub(super) type ColumnResult<'a, T> = Result<<T as ReadCell>::Column<'a>, RecordError>;

/// A type that one column stores.
pub(super) trait WriteCell: Sized {
    /// The column's logical type.
    const TYPE: DataType;
    const IS_NULLABLE: bool;

    /// Appends the cell of each row to the group's next column.
    fn encode<R>(rows: &[R], group: &mut RowGroup, cell: impl Fn(&R) -> Self) -> EncodeResult;
}

impl Column {
    /// The column of cells of type `T`.
    pub(super) const fn of<T: WriteCell>(
        name: &'static str,
        packing: Packing,
        role: Role,
    ) -> Column {
        Column {
            name,
            data_type: T::TYPE,
            nullable: T::IS_NULLABLE,
            packing,
            role,
        }
    }
}

/// A type that is read back from one column.
pub(super) trait ReadCell: WriteCell {
    /// The column, decoded and checked.
    type Column<'a>;

    /// Decodes the column with this name. One that was not requested is empty.
    fn open<'a>(columns: &'a Columns<'a>, name: &'static str) -> ColumnResult<'a, Self>;

    /// The cell of a row. Called at most once for each row.
    fn at(column: &Self::Column<'_>, row: usize) -> Self;

    /// The value that stands for the cells of a column that was not requested.
    fn absent() -> Self;
}

/// Which columns a reader of rows uses.
pub trait Selection {
    /// `None` if it uses all.
    const COLUMNS: Option<&'static [&'static str]>;
}

pub(super) struct Every;

impl Selection for Every {
    const COLUMNS: Option<&'static [&'static str]> = None;
}

/// The columns of a projection.
pub(super) struct Only<P>(std::marker::PhantomData<P>);

impl<P: Projection> Selection for Only<P> {
    const COLUMNS: Option<&'static [&'static str]> = Some(P::COLUMNS);
}

/// Whether a selection has a column. The compiler evaluates it, and removes the code that makes unused cells.
pub(super) const fn uses<S: Selection>(column: &str) -> bool {
    let Some(columns) = S::COLUMNS else {
        return true;
    };
    let mut place = 0;
    while place < columns.len() {
        if is_equal(columns[place].as_bytes(), column.as_bytes()) {
            return true;
        }
        place += 1;
    }
    false
}

/// `==`, which a const function cannot use.
const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut place = 0;
    while place < one.len() {
        if one[place] != other[place] {
            return false;
        }
        place += 1;
    }
    true
}

impl<T: Number> WriteCell for T {
    const TYPE: DataType = T::Stored::DATA_TYPE;
    const IS_NULLABLE: bool = false;

    fn encode<R>(rows: &[R], group: &mut RowGroup, cell: impl Fn(&R) -> Self) -> EncodeResult {
        if T::IS_WIDE {
            return group.numbers(rows, |row| cell(row).to_bits());
        }
        group.small(rows, |row| cell(row).to_bits() as u32);
        Ok(())
    }
}

impl<T: Number> ReadCell for T {
    type Column<'a> = RequiredColumn<'a, T>;

    fn open<'a>(columns: &'a Columns<'a>, name: &'static str) -> ColumnResult<'a, Self> {
        columns.numbers(name)
    }

    #[inline]
    fn at(column: &Self::Column<'_>, row: usize) -> Self {
        column.at(row)
    }

    #[inline]
    fn absent() -> Self {
        T::from_stored(Default::default())
    }
}

impl<T: Number> WriteCell for Option<T> {
    const TYPE: DataType = T::Stored::DATA_TYPE;
    const IS_NULLABLE: bool = true;

    fn encode<R>(rows: &[R], group: &mut RowGroup, cell: impl Fn(&R) -> Self) -> EncodeResult {
        if !T::IS_SIGNED {
            return group.optional_numbers(rows, |row| cell(row).map(T::to_bits));
        }
        group.optional_signed(rows, |row| {
            cell(row).map(|number| number.to_bits().cast_signed())
        });
        Ok(())
    }
}

impl<T: Number> ReadCell for Option<T> {
    type Column<'a> = NullableColumn<'a, T>;

    fn open<'a>(columns: &'a Columns<'a>, name: &'static str) -> ColumnResult<'a, Self> {
        columns.optional_numbers(name)
    }

    #[inline]
    fn at(column: &Self::Column<'_>, row: usize) -> Self {
        column.at(row)
    }

    #[inline]
    fn absent() -> Self {
        None
    }
}

impl WriteCell for bool {
    const TYPE: DataType = DataType::Boolean;
    const IS_NULLABLE: bool = false;

    fn encode<R>(rows: &[R], group: &mut RowGroup, cell: impl Fn(&R) -> Self) -> EncodeResult {
        group.flags(rows, cell);
        Ok(())
    }
}

impl ReadCell for bool {
    type Column<'a> = FlagColumn<'a>;

    fn open<'a>(columns: &'a Columns<'a>, name: &'static str) -> ColumnResult<'a, Self> {
        columns.flags(name)
    }

    #[inline]
    fn at(column: &Self::Column<'_>, row: usize) -> Self {
        column.at(row)
    }

    #[inline]
    fn absent() -> Self {
        false
    }
}

impl WriteCell for Option<String> {
    const TYPE: DataType = DataType::Utf8;
    const IS_NULLABLE: bool = true;

    fn encode<R>(rows: &[R], group: &mut RowGroup, cell: impl Fn(&R) -> Self) -> EncodeResult {
        group.texts(rows, cell);
        Ok(())
    }
}

impl ReadCell for Option<String> {
    type Column<'a> = Vec<cell::Cell<Option<String>>>;

    fn open<'a>(columns: &'a Columns<'a>, name: &'static str) -> ColumnResult<'a, Self> {
        let texts = columns.texts(name)?;
        Ok(texts.into_iter().map(cell::Cell::new).collect())
    }

    fn at(column: &Self::Column<'_>, row: usize) -> Self {
        column[row].take()
    }

    #[inline]
    fn absent() -> Self {
        None
    }
}

/// Implements the traits for enumerations, which are stored as the names of their variants.
macro_rules! word_cells {
    ($($Word:ty),+) => {$(
        impl WriteCell for $Word {
            const TYPE: DataType = DataType::Utf8;
            const IS_NULLABLE: bool = false;

            fn encode<R>(
                rows: &[R],
                group: &mut RowGroup,
                cell: impl Fn(&R) -> Self,
            ) -> EncodeResult {
                group.words(rows, &<$Word>::ALL.map(<$Word>::name), |row| cell(row) as usize);
                Ok(())
            }
        }

        impl ReadCell for $Word {
            type Column<'a> = WordColumn<'a, $Word>;

            fn open<'a>(columns: &'a Columns<'a>, name: &'static str) -> ColumnResult<'a, Self> {
                columns.words(name, &<$Word>::ALL, <$Word>::name)
            }

            #[inline]
            fn at(column: &Self::Column<'_>, row: usize) -> Self {
                column.at(row)
            }

            #[inline]
            fn absent() -> Self {
                <$Word>::ALL[0]
            }
        }
    )+};
}

word_cells!(
    Direction,
    Fate,
    FrameLayer,
    Outcome,
    PacketClass,
    Phase,
    Protocol,
    Repair,
    Side,
    Way
);

/// Declares a table: its columns, how rows are written, and how they are made from those columns that a reader selects.
///
/// Each column has the variable that its cell is bound to, the cell's type and value for a row, its packing ([`Packing`])
/// and its name. Columns are grouped by their role ([`Role`]). An optional check of the decoded columns comes before the
/// expression that makes a row from the variables.
macro_rules! table {
    (
        $table:literal of $row:ident: $Row:ty {$(
            $role:ident {$(
                $field:ident: $T:ty = $cell:expr, $packing:ident $name:literal;
            )+}
        )+}
        $(check($columns:ident) $check:block)?
        => $made:expr
    ) => {
        const _: () = {
            use $crate::RecordError;
            use $crate::table::cell::{ReadCell, Selection, WriteCell, uses};
            use $crate::table::columns::Columns;
            use $crate::table::packing::{CellWriteError, RowGroup};
            use $crate::table::schema::{Column, Packing, Role};
            use $crate::table::sealed::Row;

            const COLUMNS: &[Column] = &[$($(
                Column::of::<$T>($name, Packing::$packing, Role::$role),
            )+)+];

            impl Row for $Row {
                const TABLE: &'static str = $table;

                fn columns() -> &'static [Column] {
                    COLUMNS
                }

                fn encode(rows: &[Self], group: &mut RowGroup) -> Result<(), CellWriteError> {
                    $($(
                        <$T as WriteCell>::encode(rows, group, |$row: &$Row| $cell)?;
                    )+)+
                    Ok(())
                }

                fn rows<'a, S: Selection>(
                    columns: &'a Columns<'a>,
                ) -> Result<impl FnMut(usize) -> Self + 'a, RecordError> {
                    $( table!(@open $role columns $($field: $T, $name;)+); )+
                    $(
                        let $columns = columns;
                        $check
                    )?
                    Ok(move |place: usize| {
                        $( table!(@at $role place $($field: $T, $name;)+); )+
                        $made
                    })
                }
            }
        };
    };

    (@open Derived $($ignored:tt)+) => {};
    (@open $role:ident $columns:ident $($field:ident: $T:ty, $name:literal;)+) => {
        $( let $field = <$T as ReadCell>::open($columns, $name)?; )+
    };

    (@at Derived $($ignored:tt)+) => {};
    (@at $role:ident $place:ident $($field:ident: $T:ty, $name:literal;)+) => {$(
        let $field = if const { uses::<S>($name) } {
            <$T as ReadCell>::at(&$field, $place)
        } else {
            <$T as ReadCell>::absent()
        };
    )+};
}

pub(super) use table;
