//! A schema as the manifest keeps it: names and the catalog's letters.
use pgtoast_base::Alignment;
use pgtoast_codec::CompressionMethod;
use pgtoast_page::Storage;
use pgtoast_toast::SizePolicy;
use serde::{Deserialize, Serialize};

use super::{Column, ColumnType, Schema, ToastFlavour};

/// A schema, to be written to the manifest.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct SchemaRecord {
    columns: Vec<ColumnRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tuple_target: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    move_out_over: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compress_over: Option<usize>,
    value_id_bits: u8,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct ColumnRecord {
    name: String,
    #[serde(rename = "type")]
    column_type: TypeRecord,
    not_null: bool,
    storage: char,
    compression: char,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum TypeRecord {
    Bool,
    Bytea,
    Fixed { len: u16, alignment: char, by_value: bool },
    Float4,
    Float8,
    Int2,
    Int4,
    Int8,
    Json,
    Jsonb,
    Text,
    Timestamptz,
    Uuid,
    Varchar,
    Varlena { alignment: char },
}

impl SchemaRecord {
    pub(crate) fn of(schema: &Schema) -> Self {
        Self {
            columns: schema.columns.iter().map(ColumnRecord::of).collect(),
            tuple_target: schema.tuple_target,
            move_out_over: schema.policy.map(|policy| policy.move_out_over),
            compress_over: schema.policy.map(|policy| policy.compress_over),
            value_id_bits: match schema.flavour {
                ToastFlavour::Oid => 32,
                ToastFlavour::Oid8 => 64,
            },
        }
    }

    /// `None` if it says what no schema is.
    pub(crate) fn schema(&self) -> Option<Schema> {
        let policy = match (self.move_out_over, self.compress_over) {
            (Some(move_out_over), Some(compress_over)) => {
                Some(SizePolicy { move_out_over, compress_over })
            }
            (None, None) => None,
            _ => return None,
        };
        Some(Schema {
            columns: self.columns.iter().map(ColumnRecord::column).collect::<Option<_>>()?,
            tuple_target: self.tuple_target,
            policy,
            flavour: match self.value_id_bits {
                32 => ToastFlavour::Oid,
                64 => ToastFlavour::Oid8,
                _ => return None,
            },
        })
    }
}

impl ColumnRecord {
    fn of(column: &Column) -> Self {
        Self {
            name: column.name.clone(),
            column_type: TypeRecord::of(column.column_type),
            not_null: column.is_not_null,
            storage: column.storage.attstorage().into(),
            compression: match column.method {
                CompressionMethod::Pglz => 'p',
                CompressionMethod::Lz4 => 'l',
            },
        }
    }

    fn column(&self) -> Option<Column> {
        Some(Column {
            name: self.name.clone(),
            column_type: self.column_type.column_type()?,
            is_not_null: self.not_null,
            storage: Storage::from_attstorage(u8::try_from(self.storage).ok()?)?,
            method: match self.compression {
                'p' => CompressionMethod::Pglz,
                'l' => CompressionMethod::Lz4,
                _ => return None,
            },
        })
    }
}

impl TypeRecord {
    fn of(column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Bool => Self::Bool,
            ColumnType::Bytea => Self::Bytea,
            ColumnType::Fixed { len, alignment, by_value } => {
                Self::Fixed { len, alignment: alignment.typalign().into(), by_value }
            }
            ColumnType::Float4 => Self::Float4,
            ColumnType::Float8 => Self::Float8,
            ColumnType::Int2 => Self::Int2,
            ColumnType::Int4 => Self::Int4,
            ColumnType::Int8 => Self::Int8,
            ColumnType::Json => Self::Json,
            ColumnType::Jsonb => Self::Jsonb,
            ColumnType::Text => Self::Text,
            ColumnType::Timestamptz => Self::Timestamptz,
            ColumnType::Uuid => Self::Uuid,
            ColumnType::Varchar => Self::Varchar,
            ColumnType::Varlena { alignment } => {
                Self::Varlena { alignment: alignment.typalign().into() }
            }
        }
    }

    fn column_type(self) -> Option<ColumnType> {
        let alignment_of = |letter: char| Alignment::from_typalign(u8::try_from(letter).ok()?);
        Some(match self {
            Self::Bool => ColumnType::Bool,
            Self::Bytea => ColumnType::Bytea,
            Self::Fixed { len, alignment, by_value } => {
                ColumnType::Fixed { len, alignment: alignment_of(alignment)?, by_value }
            }
            Self::Float4 => ColumnType::Float4,
            Self::Float8 => ColumnType::Float8,
            Self::Int2 => ColumnType::Int2,
            Self::Int4 => ColumnType::Int4,
            Self::Int8 => ColumnType::Int8,
            Self::Json => ColumnType::Json,
            Self::Jsonb => ColumnType::Jsonb,
            Self::Text => ColumnType::Text,
            Self::Timestamptz => ColumnType::Timestamptz,
            Self::Uuid => ColumnType::Uuid,
            Self::Varchar => ColumnType::Varchar,
            Self::Varlena { alignment } => {
                ColumnType::Varlena { alignment: alignment_of(alignment)? }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_comes_back_from_its_record() {
        let odd = ColumnType::Fixed { len: 12, alignment: Alignment::Int, by_value: false };
        let wide = ColumnType::Varlena { alignment: Alignment::Double };
        let schema = Schema::new([
            Column::new("id", ColumnType::Int8).not_null(),
            Column::new("odd", odd),
            Column::new("wide", wide).with_storage(Storage::Main),
            Column::new("note", ColumnType::Text).with_compression(CompressionMethod::Lz4),
        ])
        .with_tuple_target(500)
        .with_size_policy(SizePolicy { move_out_over: 100, compress_over: 2000 })
        .with_flavour(ToastFlavour::Oid8);
        let text = serde_json::to_string(&SchemaRecord::of(&schema)).expect("a record is JSON");
        let record: SchemaRecord = serde_json::from_str(&text).expect("as it was written");
        assert_eq!(record.schema(), Some(schema));
    }

    #[test]
    fn letters_that_mean_nothing_are_no_schema() {
        let schema = Schema::new([Column::new("id", ColumnType::Int8)]);
        let text = serde_json::to_string(&SchemaRecord::of(&schema)).expect("a record is JSON");
        for (from, to) in [
            ("\"storage\":\"p\"", "\"storage\":\"q\""),
            ("\"compression\":\"p\"", "\"compression\":\"z\""),
            ("\"value_id_bits\":32", "\"value_id_bits\":16"),
        ] {
            let changed = text.replace(from, to);
            assert_ne!(changed, text);
            let record: SchemaRecord = serde_json::from_str(&changed).expect("still JSON");
            assert_eq!(record.schema(), None);
        }
    }
}
