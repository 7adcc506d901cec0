//! A tuple on a page, and its attributes.
use serde::Serialize;

use super::{PageContext, hex};
use crate::datadir::Columns;
use crate::page::{AttributeLen, HeapTuple, Infomask, TupleDescriptor, VacuumState, Value};
use crate::report::values::Form;
use crate::toast::{column_compression, column_size, column_toast_chunk_id, raw_len};
use crate::varlena::Varlena;

/// A tuple.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TupleReport {
    /// Who inserted it.
    pub xmin: u32,
    /// Who deleted, updated or locked it; 0 for nobody.
    pub xmax: u32,
    /// Itself, or its next version.
    pub ctid: String,
    /// How many attributes it has.
    pub attribute_count: u16,
    /// Where its attributes begin, in bytes from its start.
    pub data_offset: u8,
    /// Its flags.
    pub flags: Vec<String>,
    /// What vacuum would make of it, if the transactions are known.
    pub state: Option<String>,
    /// Its attributes, if the columns are known.
    pub attributes: Vec<AttributeReport>,
}

/// An attribute.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AttributeReport {
    /// The column's name.
    pub column: String,
    /// `null`, `missing` for a row older than the column, `fixed`, or how its value is stored.
    pub form: String,
    /// Where it starts, in bytes from the start of the tuple.
    pub offset: Option<u32>,
    /// How many bytes the value has.
    pub raw_bytes: Option<u64>,
    /// How many it takes where it is stored.
    pub stored_bytes: Option<u64>,
    /// How it is compressed.
    pub method: Option<String>,
    /// Its id in the TOAST relation.
    pub value_id: Option<u64>,
    /// The id of that TOAST relation.
    pub toast_relation: Option<u32>,
    /// The first bytes as they are stored, in hexadecimal.
    pub bytes: Option<String>,
    /// What is wrong with it; then nothing is known of those behind it.
    pub fault: Option<String>,
}

pub(super) fn tuple_report(tuple: HeapTuple<'_>, context: &PageContext<'_>) -> TupleReport {
    let header = tuple.header();
    let infomask = header.infomask();
    let mut flags: Vec<String> = infomask.iter_names().map(|(name, _)| name.to_owned()).collect();
    // Two bits that mean one thing together.
    if infomask.contains(Infomask::XMIN_FROZEN) {
        flags.retain(|name| name != "XMIN_COMMITTED" && name != "XMIN_INVALID");
        flags.push("XMIN_FROZEN".to_owned());
    }
    flags.extend(header.infomask2().iter_names().map(|(name, _)| name.to_owned()));
    let state =
        context.transactions.map(|transactions| match transactions.reader().vacuum_state(header) {
            Ok(VacuumState::Dead) => "dead".to_owned(),
            Ok(VacuumState::DeleteInProgress) => "delete in progress".to_owned(),
            Ok(VacuumState::InsertInProgress) => "insert in progress".to_owned(),
            Ok(VacuumState::Live) => "live".to_owned(),
            Ok(VacuumState::RecentlyDead) => "recently dead".to_owned(),
            Err(error) => error.to_string(),
        });
    TupleReport {
        xmin: header.xmin().get(),
        xmax: header.xmax().get(),
        ctid: header.ctid().to_string(),
        attribute_count: header.natts(),
        data_offset: header.hoff(),
        flags,
        state,
        attributes: context.columns.map_or_else(Vec::new, |columns| attributes(tuple, columns)),
    }
}

fn attributes(tuple: HeapTuple<'_>, columns: &Columns) -> Vec<AttributeReport> {
    let described = columns.attributes();
    let walked = TupleDescriptor::new(&described).and_then(|descriptor| tuple.deform(descriptor));
    let walk = match walked {
        Ok(walk) => walk,
        Err(error) => {
            return vec![AttributeReport {
                fault: Some(error.to_string()),
                ..AttributeReport::new("", "?")
            }];
        }
    };
    let mut reports = Vec::new();
    for (attribute, column) in walk.zip(columns) {
        let report = match attribute.map(|attribute| attribute.value) {
            Ok(Value::Null) => AttributeReport::new(&column.name, "null"),
            Ok(Value::Missing(_)) => AttributeReport::new(&column.name, "missing"),
            Ok(Value::Stored(datum)) => {
                let is_varlena = column.len == AttributeLen::Varlena;
                AttributeReport {
                    offset: u32::try_from(datum.offset).ok(),
                    bytes: Some(hex(datum.bytes)),
                    ..AttributeReport::stored(&column.name, datum.bytes, is_varlena)
                }
            }
            Err(error) => AttributeReport {
                fault: Some(error.to_string()),
                ..AttributeReport::new(&column.name, "?")
            },
        };
        let is_broken = report.fault.is_some();
        reports.push(report);
        if is_broken {
            break;
        }
    }
    reports
}

impl AttributeReport {
    fn new(column: &str, form: &str) -> Self {
        Self {
            column: column.to_owned(),
            form: form.to_owned(),
            offset: None,
            raw_bytes: None,
            stored_bytes: None,
            method: None,
            value_id: None,
            toast_relation: None,
            bytes: None,
            fault: None,
        }
    }

    fn stored(column: &str, bytes: &[u8], is_varlena: bool) -> Self {
        if !is_varlena {
            let len = Some(bytes.len() as u64);
            return Self { raw_bytes: len, stored_bytes: len, ..Self::new(column, "fixed") };
        }
        let described = Varlena::parse(bytes, 0).and_then(|(datum, _)| {
            let pointer = match &datum {
                Varlena::External(pointer) => Some(pointer.toast_rel_id().get()),
                _ => None,
            };
            Ok(Self {
                raw_bytes: Some(raw_len(&datum)? as u64),
                stored_bytes: Some(column_size(&datum) as u64),
                method: column_compression(&datum)?.map(|method| method.name().to_owned()),
                value_id: column_toast_chunk_id(&datum).map(|id| id.get()),
                toast_relation: pointer,
                ..Self::new(column, Form::of(&datum).name())
            })
        });
        described.unwrap_or_else(|error| Self {
            fault: Some(error.to_string()),
            ..Self::new(column, "?")
        })
    }
}
