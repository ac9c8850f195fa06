//! Tables of finished figures, as CSV or as Parquet.
//!
//! It computes no figure. These tables are small and only written; those of a trial are in `crate::table`, which packs and
//! reads them.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;

use super::{Cell, ExportError, Lines};

/// A column of a table: a value for each row, of which `None` is a null.
#[derive(Clone, Debug, PartialEq)]
pub enum FigureColumn {
    /// Counts, and times in nanoseconds.
    Counts(Vec<Option<u64>>),
    /// Rates and shares.
    Numbers(Vec<Option<f64>>),
    /// Names and words.
    Texts(Vec<Option<String>>),
}

impl FigureColumn {
    fn len(&self) -> usize {
        match self {
            FigureColumn::Counts(values) => values.len(),
            FigureColumn::Numbers(values) => values.len(),
            FigureColumn::Texts(values) => values.len(),
        }
    }

    /// The cell of a row in CSV; empty for a null and beyond the last row.
    fn text(&self, row: usize) -> String {
        fn shown<T: ToString>(values: &[Option<T>], row: usize) -> String {
            let value = values.get(row).and_then(Option::as_ref);
            value.map(T::to_string).unwrap_or_default()
        }
        match self {
            FigureColumn::Counts(values) => shown(values, row),
            FigureColumn::Numbers(values) => shown(values, row),
            FigureColumn::Texts(values) => shown(values, row),
        }
    }

    fn into_array(self) -> ArrayRef {
        match self {
            FigureColumn::Counts(values) => Arc::new(UInt64Array::from(values)),
            FigureColumn::Numbers(values) => Arc::new(Float64Array::from(values)),
            FigureColumn::Texts(values) => Arc::new(StringArray::from(values)),
        }
    }
}

/// Writes a table as CSV. An empty cell is a null.
///
/// ```
/// use squall_record::export::{FigureColumn, write_figures_csv};
///
/// let texts = ["delay 1ms, loss 0%", "delay 1ms, loss 1%"].map(|text| Some(text.to_owned()));
/// let columns = [
///     ("condition", FigureColumn::Texts(texts.to_vec())),
///     ("p99_ns", FigureColumn::Counts(vec![Some(7), None])),
/// ];
/// let text = write_figures_csv(Vec::new(), &columns)?;
/// let expected = "condition,p99_ns\n\"delay 1ms, loss 0%\",7\n\"delay 1ms, loss 1%\",\n";
/// assert_eq!(text, expected.as_bytes());
/// # Ok::<(), squall_record::export::ExportError>(())
/// ```
///
/// # Errors
/// The operating system refused to write.
pub fn write_figures_csv<W: Write>(
    writer: W,
    columns: &[(&str, FigureColumn)],
) -> Result<W, ExportError> {
    let mut lines = Lines::new("CSV", writer);
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    lines.add(format_args!("{}\n", names.join(",")))?;
    let rows = columns.iter().map(|(_, column)| column.len()).max();
    for row in 0..rows.unwrap_or(0) {
        let cells: Vec<String> = columns
            .iter()
            .map(|(_, column)| Cell(&column.text(row)).to_string())
            .collect();
        lines.add(format_args!("{}\n", cells.join(",")))?;
    }
    lines.finish()
}

/// Writes a table as Parquet: counts as unsigned integers of 64 bits, numbers as floating-point numbers of 64 bits. Every
/// column may have nulls, so that tables of several runs have the same schema.
///
/// # Errors
/// The operating system refused to write, or the columns differ in length.
pub fn write_figures_parquet<W: Write + Send>(
    writer: W,
    columns: Vec<(&str, FigureColumn)>,
) -> Result<W, ExportError> {
    let written = parquet(writer, columns);
    let mut writer = written.map_err(|source| ExportError::Table { source })?;
    writer.flush().map_err(|source| ExportError::Write {
        format: "Parquet table",
        source,
    })?;
    Ok(writer)
}

fn parquet<W: Write + Send>(
    writer: W,
    columns: Vec<(&str, FigureColumn)>,
) -> Result<W, ParquetError> {
    let columns = columns.into_iter();
    let arrays = columns.map(|(name, column)| (name, column.into_array(), true));
    let batch = RecordBatch::try_from_iter_with_nullable(arrays)?;
    let mut table = ArrowWriter::try_new(writer, batch.schema(), None)?;
    table.write(&batch)?;
    table.into_inner()
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, cast::AsArray, types::UInt64Type};
    use arrow_schema::DataType;
    use bytes::Bytes;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    #[test]
    fn parquet_has_the_types_and_the_nulls_of_the_columns() {
        let columns = vec![
            (
                "variant",
                FigureColumn::Texts(vec![Some("h1".to_owned()), None]),
            ),
            ("p99_ns", FigureColumn::Counts(vec![Some(7), None])),
            ("rate_per_s", FigureColumn::Numbers(vec![None, None])),
        ];
        let written = write_figures_parquet(Vec::new(), columns).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(written)).unwrap();
        let batches = reader.build().unwrap();
        let batches: Vec<RecordBatch> = batches.map(Result::unwrap).collect();
        let [batch] = batches.as_slice() else {
            panic!("{} batches", batches.len());
        };
        let schema = batch.schema();
        let types: Vec<(&str, &DataType)> = (schema.fields().iter())
            .map(|field| (field.name().as_str(), field.data_type()))
            .collect();
        assert_eq!(
            types,
            [
                ("variant", &DataType::Utf8),
                ("p99_ns", &DataType::UInt64),
                ("rate_per_s", &DataType::Float64)
            ]
        );
        let p99 = batch.column(1).as_primitive::<UInt64Type>();
        assert_eq!((p99.value(0), p99.is_null(1)), (7, true));
        assert_eq!(batch.column(2).null_count(), 2);
        let variants = batch.column(0).as_string::<i32>();
        assert_eq!((variants.value(0), variants.is_null(1)), ("h1", true));
    }

    #[test]
    fn columns_of_different_lengths_are_refused() {
        let columns = vec![
            ("one", FigureColumn::Counts(vec![Some(1)])),
            ("none", FigureColumn::Counts(Vec::new())),
        ];
        assert!(write_figures_parquet(Vec::new(), columns).is_err());
    }
}
