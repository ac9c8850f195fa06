//! Describes columns: name, type, nullability, and how Parquet packs them.
//!
//! It holds no data. The columns of each table are in the module with its name; docs/RECORD.md defines their meaning.

use std::fs::File;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;

use super::sealed::Row;

/// The metadata key of the schema version.
pub(super) const SCHEMA_KEY: &str = "squall.schema";
/// The metadata key of the table's name.
pub(super) const TABLE_KEY: &str = "squall.table";

/// How Parquet packs a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// Differences between neighbours, for numbers that grow or stay close to the one before. Also for small numbers of
    /// any kind, because a dictionary lookup takes four times as long.
    Delta,
    /// A dictionary of the distinct values, for large numbers and texts that repeat.
    Dictionary,
    /// A dictionary that readers with Arrow support also present as one (a pandas categorical).
    Words,
}

/// The purpose of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Part of the row; written and read.
    Stored,
    /// Part of the row; tables of the oldest readable schema lack it, and it then reads as zero or null.
    Added,
    /// Computed from other columns; written for people who query the file, not read.
    Derived,
}

/// One column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    pub(super) name: &'static str,
    /// Its logical type, without dictionary encoding.
    pub(super) data_type: DataType,
    pub(super) nullable: bool,
    pub(super) packing: Packing,
    pub(super) role: Role,
}

impl Column {
    /// Whether the column is part of the row.
    pub(super) fn is_read(&self) -> bool {
        self.role != Role::Derived
    }

    /// Whether the column has this name and is part of the row.
    pub(super) fn is_stored_as(&self, name: &str) -> bool {
        self.name == name && self.is_read()
    }

    fn field(&self) -> Field {
        let data_type = match self.packing {
            Packing::Words => dictionary(&self.data_type),
            Packing::Delta | Packing::Dictionary => self.data_type.clone(),
        };
        Field::new(self.name, data_type, self.nullable)
    }

    /// Whether the column is read as a dictionary, so that each distinct word is checked only once. Nullable columns are not.
    pub(super) fn is_read_as_words(&self) -> bool {
        self.packing == Packing::Words && !self.nullable
    }
}

/// The Arrow type of a dictionary.
pub(super) fn dictionary(values: &DataType) -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(values.clone()))
}

fn arrow_schema<R: Row>() -> Schema {
    Schema::new(R::columns().iter().map(Column::field).collect::<Vec<_>>())
}

/// What all files of a table have in common.
#[derive(Clone)]
pub(super) struct FileLayout {
    schema: TypePtr,
    properties: WriterPropertiesPtr,
}

impl FileLayout {
    pub(super) fn of<R: Row>() -> Result<FileLayout, ParquetError> {
        let schema = ArrowSchemaConverter::new().convert(&arrow_schema::<R>())?;
        Ok(FileLayout {
            schema: schema.root_schema_ptr(),
            properties: Arc::new(properties::<R>()),
        })
    }

    /// Begins a file.
    pub(super) fn begin(&self, file: File) -> Result<SerializedFileWriter<File>, ParquetError> {
        SerializedFileWriter::new(file, Arc::clone(&self.schema), Arc::clone(&self.properties))
    }
}

/// The file's properties and metadata. `packing` decides how each column is packed.
fn properties<R: Row>() -> WriterProperties {
    let metadata = vec![
        KeyValue::new(SCHEMA_KEY.to_owned(), crate::SCHEMA.to_string()),
        KeyValue::new(TABLE_KEY.to_owned(), R::TABLE.to_owned()),
    ];
    let mut properties = WriterProperties::builder()
        // Readers that skip rows skip whole row groups, and pages by their headers, so no reader needs an index of the pages.
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(metadata))
        .build();
    add_encoded_arrow_schema_to_metadata(&arrow_schema::<R>(), &mut properties);
    properties
}
