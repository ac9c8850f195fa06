//! What a column is: its name, type, whether it may be null, and how Parquet shall pack it.
//!
//! It holds no data. The columns of each table are in the module with its name; their meaning is in docs/RECORD.md.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::sealed::Row;

/// The metadata that holds the version of the schema.
pub(super) const SCHEMA_KEY: &str = "squall.schema";
/// The metadata that holds the table's name.
pub(super) const TABLE_KEY: &str = "squall.table";
/// Rows of a row group: the writer holds the encoded pages of one at a time.
pub(super) const ROW_GROUP_ROWS: usize = 64 * 1024;
/// Measured with examples/bytes_per_row.rs: level 3 saves under 1 % over level 1, and takes longer.
const ZSTD_LEVEL: i32 = 1;

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

    fn field(&self) -> Field {
        let data_type = match self.packing {
            Packing::Words => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(self.data_type.clone()))
            }
            Packing::Delta | Packing::Dictionary => self.data_type.clone(),
        };
        Field::new(self.name, data_type, self.nullable)
    }
}

/// The schema of `R` in Arrow's terms.
pub(super) fn arrow_schema<R: Row>() -> Arc<Schema> {
    Arc::new(Schema::new(
        R::columns().iter().map(Column::field).collect::<Vec<_>>(),
    ))
}

/// How the Parquet writer shall write `R`.
pub(super) fn properties<R: Row>() -> Result<WriterProperties, ParquetError> {
    let metadata = vec![
        KeyValue::new(SCHEMA_KEY.to_owned(), crate::SCHEMA.to_string()),
        KeyValue::new(TABLE_KEY.to_owned(), R::TABLE.to_owned()),
    ];
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        // Each page takes a fresh state of zstd, which costs more than most pages.
        .set_data_page_row_count_limit(ROW_GROUP_ROWS)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_key_value_metadata(Some(metadata));
    for column in R::columns() {
        let path = ColumnPath::from(column.name);
        properties = match column.packing {
            Packing::Delta => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            // The least and the greatest word help nobody, and take a comparison of texts for each row.
            Packing::Words => {
                properties.set_column_statistics_enabled(path, EnabledStatistics::None)
            }
            Packing::Dictionary => properties,
        };
    }
    Ok(properties.build())
}
