//! `[[variant]]`: a path, the client's connections (`pool`), and the settings of both sides (`side`).

use squall_base::plan::{Protocol, Side, SideSettings, Variant};

use super::pool::Pool;
use super::{distinct, side};
use crate::error::Mistake;
use crate::path::{self, PathError};
use crate::problems::Reported;
use crate::section::{At, Field, Section};
use crate::shapes;

const DEFAULT_CONGESTION_CONTROL: &str = "cubic";
/// Variant names are columns of tables and parts of folder names.
const MAX_NAME_LEN: usize = 40;

const SOME_VARIANTS: &str = "at least one [[variant]]";
const DOUBLE_BRACKETS: &str = "write [[variant]] with two brackets on each side";

/// Reads all variants, in the order of the text.
pub(super) fn read_all(root: &Section<'_>) -> Result<Vec<Variant>, Reported> {
    let usual = root
        .maybe("congestion_control", |f| side::congestion_control(&f))
        .map(|name| name.unwrap_or_else(|| DEFAULT_CONGESTION_CONTROL.to_owned()));
    let fields = root.required("variant", SOME_VARIANTS, |f| {
        f.tables(SOME_VARIANTS, DOUBLE_BRACKETS)
    })?;
    let sections: Vec<Result<Section<'_>, Reported>> = fields
        .iter()
        .map(|f| f.section(&shapes::VARIANT, shapes::VARIANT.label))
        .collect();
    let names: Vec<Result<At<String>, Reported>> = sections
        .iter()
        .map(|s| {
            s.as_ref()
                .map_err(|r| *r)?
                .required("name", NAME, |f| variant_name(&f))
        })
        .collect();
    let known: Vec<At<String>> = names.iter().flatten().cloned().collect();
    let unique = distinct(root.problems(), "variant", &known);
    let variants: Vec<Result<Variant, Reported>> = sections
        .iter()
        .zip(names)
        .map(|(section, name)| variant(section.as_ref().map_err(|r| *r)?, name, &usual))
        .collect();
    unique?;
    variants.into_iter().collect()
}

fn variant(
    section: &Section<'_>,
    name: Result<At<String>, Reported>,
    usual_congestion_control: &Result<String, Reported>,
) -> Result<Variant, Reported> {
    let path = section.required("path", "a path, such as \"client ~h1~> server\"", |f| {
        path(&f)
    });
    // Without a protocol everything is read all the same, for the mistakes that do not depend on it.
    let known_protocol = path.as_ref().ok().map(|(_, protocol)| *protocol);
    let pool = Pool::read(section, known_protocol);
    let sides = sides(section, known_protocol, usual_congestion_control);
    let (path, protocol) = path?;
    let pool = pool.and_then(|pool| pool.over(section, protocol));
    let (client, server) = sides?;
    let checks = [
        side::check(section, Side::Client, protocol, &client),
        side::check(section, Side::Server, protocol, &server),
    ];
    checks.into_iter().collect::<Result<(), _>>()?;
    let (connections, pool) = pool?;
    Ok(Variant {
        name: name?.value,
        path,
        protocol,
        connections,
        pool,
        client,
        server,
    })
}

/// The settings of the client's and of the server's side.
fn sides(
    section: &Section<'_>,
    protocol: Option<Protocol>,
    usual_congestion_control: &Result<String, Reported>,
) -> Result<(SideSettings, SideSettings), Reported> {
    let own = section.maybe("congestion_control", |f| {
        let name = side::congestion_control(&f);
        side::used(&f, "TCP", protocol, side::is_tcp)?;
        name
    });
    let congestion_control = match own {
        Ok(Some(own)) => Ok(own),
        Ok(None) => usual_congestion_control.clone(),
        Err(reported) => Err(reported),
    };
    let mut both = SideSettings::default();
    if let Ok(name) = &congestion_control {
        both.tcp.congestion_control.clone_from(name);
    }
    let tables = side::tables(section, protocol, &mut both);
    let client = side::read(section, Side::Client, protocol, &both);
    let server = side::read(section, Side::Server, protocol, &both);
    congestion_control?;
    tables?;
    Ok((client?, server?))
}

const NAME: &str = "a name of 1 to 40 visible ASCII characters, with blanks only between them";

fn variant_name(field: &Field<'_>) -> Result<At<String>, Reported> {
    let At { value, span } = field.text()?;
    let is_name = (1..=MAX_NAME_LEN).contains(&value.len())
        && value.chars().all(|c| c.is_ascii_graphic() || c == ' ')
        && value.trim() == value;
    if is_name {
        return Ok(At {
            value: value.to_owned(),
            span,
        });
    }
    let mistake = Mistake::Malformed {
        text: value.to_owned(),
        rule: "a variant's name",
    };
    Err(field.refuse(mistake, NAME))
}

fn path(field: &Field<'_>) -> Result<(String, Protocol), Reported> {
    let text = field.text()?.value;
    path::parse(text)
        .and_then(|path| Ok((path.to_string(), path.protocol_across_link()?)))
        .map_err(
            |PathError {
                 mistake,
                 span,
                 expected,
                 hint,
             }| { field.refuse_part(span, mistake.into(), &expected, hint) },
        )
}
