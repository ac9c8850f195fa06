//! `body` of `[request]`: a size, a text, a file or a form.

use squall_base::Bytes;
use squall_base::plan::{FormField, FormValue, RequestBody};
use toml::de::DeValue;

use super::load::besides;
use crate::error::Mistake;
use crate::files::Named;
use crate::problems::Reported;
use crate::section::{At, Field};
use crate::shapes;

/// Generated bodies are held in memory, by both sides.
const MAX_BODY: Bytes = Bytes::new(1 << 30);

/// A size, at most 1 GiB.
pub(super) fn size(field: &Field<'_>) -> Result<At<Bytes>, Reported> {
    field.quantity_in(&(Bytes::default()..=MAX_BODY), "at most 1GiB")
}

/// What a request carries.
pub(super) fn read(field: &Field<'_>, files: &Named<'_>) -> Result<RequestBody, Reported> {
    let DeValue::Table(table) = field.value() else {
        return Ok(RequestBody::Size(size(field)?.value));
    };
    let section = field.section(&shapes::BODY, shapes::BODY.label)?;
    if table.len() != 1 {
        let mistake = Mistake::NotOneKey {
            key: "body".to_owned(),
            count: table.len(),
        };
        return Err(field.refuse(mistake, "one of `size`, `text`, `file` and `form`"));
    }
    let of_size = section.maybe("size", |f| Ok(RequestBody::Size(size(&f)?.value)))?;
    let of_text = section.maybe("text", |f| {
        Ok(RequestBody::Text(f.text()?.value.to_owned()))
    })?;
    let of_file = section.maybe("file", |f| {
        let path = f.text()?.value;
        Ok(RequestBody::File(files.body(&f, path)?))
    })?;
    let of_form = section.maybe("form", |f| form(&f, files))?;
    let found = of_size.or(of_text).or(of_file).or(of_form);
    // A key that the table does not have is reported already.
    found.ok_or_else(|| section.missing("size", "one of `size`, `text`, `file` and `form`"))
}

fn form(field: &Field<'_>, files: &Named<'_>) -> Result<RequestBody, Reported> {
    let entries = field.entries("a table of the form's fields")?;
    let fields: Vec<Result<FormField, Reported>> = entries
        .iter()
        .map(|entry| form_field(entry, files))
        .collect();
    Ok(RequestBody::Form(
        fields.into_iter().collect::<Result<_, _>>()?,
    ))
}

/// A text, or an upload.
fn form_field(entry: &Field<'_>, files: &Named<'_>) -> Result<FormField, Reported> {
    let name = entry.key.to_owned();
    let value = match entry.value() {
        DeValue::Table(_) => upload(entry, files)?,
        DeValue::String(text) => FormValue::Text(text.to_string()),
        _ => return Err(entry.wrong_type("a text, or { file = \"path\" }", None)),
    };
    Ok(FormField { name, value })
}

/// The upload of a file, or of so many bytes under a name.
fn upload(entry: &Field<'_>, files: &Named<'_>) -> Result<FormValue, Reported> {
    const EITHER: &str = "the path of a file, or `size` and `name`";
    let table = entry.section(&shapes::UPLOAD, shapes::UPLOAD.label)?;
    let name = table.maybe("name", |f| Ok(f.text()?.value.to_owned()))?;
    let bytes = table.maybe("size", |f| size(&f))?;
    let file = table.maybe("file", |f| {
        let path = f.text()?.value;
        Ok((path.to_owned(), files.body(&f, path)?))
    })?;
    match (file, bytes) {
        (Some((path, file)), None) => Ok(FormValue::File {
            name: name.unwrap_or_else(|| path.rsplit('/').next().unwrap_or(&path).to_owned()),
            file,
        }),
        (None, Some(size)) => Ok(FormValue::Generated {
            name: name.ok_or_else(|| {
                table.missing("name", "a name of a file, such as \"catalogue.pdf\"")
            })?,
            size: size.value,
        }),
        (Some(_), Some(_)) => Err(besides(&table, "file", "size")),
        (None, None) => Err(table.missing("file", EITHER)),
    }
}
