//! What a column is: its name, type, whether it may be null, and how Parquet shall pack it.
//!
//! It holds no data. The columns of each table are in the module with its name; their meaning is in docs/RECORD.md.

use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::TypePtr;

use super::sealed::Row;

/// The metadata that holds the version of the schema.
pub(super) const SCHEMA_KEY: &str = "squall.schema";
/// The metadata that holds the table's name.
pub(super) const TABLE_KEY: &str = "squall.table";

/// How Parquet packs a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// Differences of neighbours: for numbers that grow or stay close to the one before, and for small ones, whatever
    /// they are: a dictionary's lookup takes four times as long.
    Delta,
    /// A dictionary of the values that occur: for large numbers and texts that repeat.
    Dictionary,
    /// The same, and readers that know Arrow get it as a dictionary too (a categorical of pandas).
    Words,
}

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Part of the row: written and read.
    Stored,
    /// Follows from other columns: written for those who query the file, not read.
    Derived,
}

/// One column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    pub(super) name: &'static str,
    /// Its type in Parquet.
    pub(super) data_type: DataType,
    pub(super) nullable: bool,
    pub(super) packing: Packing,
    pub(super) role: Role,
}

impl Column {
    /// A number in every row, near to the one of the row before.
    pub(super) const fn delta(name: &'static str, data_type: DataType) -> Column {
        Column {
            name,
            data_type,
            nullable: false,
            packing: Packing::Delta,
            role: Role::Stored,
        }
    }

    /// A value in every row, of few different ones.
    pub(super) const fn dictionary(name: &'static str, data_type: DataType) -> Column {
        let packing = Packing::Dictionary;
        Column {
            name,
            data_type,
            nullable: false,
            packing,
            role: Role::Stored,
        }
    }

    /// A word of an enumeration in every row.
    pub(super) const fn words(name: &'static str) -> Column {
        let (data_type, packing) = (DataType::Utf8, Packing::Words);
        Column {
            name,
            data_type,
            nullable: false,
            packing,
            role: Role::Stored,
        }
    }

    /// The same column, which may be null.
    pub(super) const fn or_null(mut self) -> Column {
        self.nullable = true;
        self
    }

    /// The same column, as one that follows from others.
    pub(super) const fn derived(mut self) -> Column {
        self.role = Role::Derived;
        self
    }

    /// Whether it is the column `name`, and part of the row.
    pub(super) fn is_stored_as(&self, name: &str) -> bool {
        self.name == name && self.role == Role::Stored
    }

    fn field(&self) -> Field {
        let data_type = match self.packing {
            Packing::Words => dictionary(&self.data_type),
            Packing::Delta | Packing::Dictionary => self.data_type.clone(),
        };
        Field::new(self.name, data_type, self.nullable)
    }

    /// Whether it is read as a dictionary, so that each word is looked at once: what may be null is not.
    pub(super) fn is_read_as_words(&self) -> bool {
        self.packing == Packing::Words && !self.nullable
    }
}

/// A dictionary in Arrow's terms.
pub(super) fn dictionary(values: &DataType) -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(values.clone()))
}

/// The schema of `R` in Arrow's terms.
fn arrow_schema<R: Row>() -> Schema {
    Schema::new(R::columns().iter().map(Column::field).collect::<Vec<_>>())
}

/// The schema of `R` in Parquet's terms.
pub(super) fn parquet_schema<R: Row>() -> Result<TypePtr, ParquetError> {
    let schema = ArrowSchemaConverter::new().convert(&arrow_schema::<R>())?;
    Ok(schema.root_schema_ptr())
}

/// What the file says of itself besides its columns. How each is packed, `packing` decides.
pub(super) fn properties<R: Row>() -> WriterProperties {
    let metadata = vec![
        KeyValue::new(SCHEMA_KEY.to_owned(), crate::SCHEMA.to_string()),
        KeyValue::new(TABLE_KEY.to_owned(), R::TABLE.to_owned()),
    ];
    let mut properties = WriterProperties::builder()
        // Whoever leaves rows out does so by the row group: nobody here looks for a page.
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(metadata))
        .build();
    add_encoded_arrow_schema_to_metadata(&arrow_schema::<R>(), &mut properties);
    properties
}
