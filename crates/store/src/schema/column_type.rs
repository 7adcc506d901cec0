//! What a column holds, and how a server would store it.
use pgtoast_base::Alignment;
use pgtoast_page::{AttributeDescriptor, AttributeLen, Storage};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ColumnType {
    /// True or false: a byte.
    Bool,
    /// Any bytes.
    Bytea,
    /// Values of so many bytes, of a type that the store does not know.
    Fixed {
        /// In bytes, 1 to 32767; 1, 2, 4 or 8 if it is passed by value.
        len: u16,
        /// What they are aligned to.
        alignment: Alignment,
        /// Whether a server passes them by value.
        by_value: bool,
    },
    /// A number of 4 bytes with a fraction.
    Float4,
    /// A number of 8 bytes with a fraction.
    Float8,
    /// A whole number of 2 bytes.
    Int2,
    /// A whole number of 4 bytes.
    Int4,
    /// A whole number of 8 bytes.
    Int8,
    /// A text, which is taken to be JSON.
    Json,
    /// The bytes of the server's binary JSON, which are taken as they are.
    Jsonb,
    /// A text in UTF-8.
    Text,
    /// Microseconds since the beginning of the year 2000, UTC.
    Timestamptz,
    /// 16 bytes.
    Uuid,
    /// A text in UTF-8; its length is not limited.
    Varchar,
    /// Payloads of any length, of a type that the store does not know.
    Varlena {
        /// What those that have a long header are aligned to: 4 or 8 bytes.
        alignment: Alignment,
    },
}

impl ColumnType {
    /// As SQL writes it; `None` for a type that the store does not know.
    #[must_use]
    pub fn sql_name(self) -> Option<&'static str> {
        match self {
            Self::Fixed { .. } | Self::Varlena { .. } => None,
            _ => Some(self.name()),
        }
    }

    /// What it is called in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Bytea => "bytea",
            Self::Fixed { .. } => "bytes of a fixed length",
            Self::Float4 => "float4",
            Self::Float8 => "float8",
            Self::Int2 => "int2",
            Self::Int4 => "int4",
            Self::Int8 => "int8",
            Self::Json => "json",
            Self::Jsonb => "jsonb",
            Self::Text => "text",
            Self::Timestamptz => "timestamptz",
            Self::Uuid => "uuid",
            Self::Varchar => "varchar",
            Self::Varlena { .. } => "bytes",
        }
    }

    /// Whether its values have a length of their own.
    #[must_use]
    pub fn is_varlena(self) -> bool {
        self.descriptor().len == AttributeLen::Varlena
    }

    /// Whether its values are texts.
    #[must_use]
    pub fn is_text(self) -> bool {
        matches!(self, Self::Json | Self::Text | Self::Varchar)
    }

    pub(crate) fn default_storage(self) -> Storage {
        self.descriptor().storage
    }

    /// Whether a server could have such a type.
    pub(crate) fn is_sound(self) -> bool {
        match self {
            Self::Fixed { len, by_value, .. } => {
                (1..=0x7fff).contains(&len) && (!by_value || matches!(len, 1 | 2 | 4 | 8))
            }
            Self::Varlena { alignment } => {
                matches!(alignment, Alignment::Int | Alignment::Double)
            }
            _ => true,
        }
    }

    /// As `pg_type` has it.
    pub(crate) fn descriptor(self) -> AttributeDescriptor<'static> {
        let (len, by_value, alignment) = match self {
            Self::Bool => (AttributeLen::Fixed(1), true, Alignment::Char),
            Self::Int2 => (AttributeLen::Fixed(2), true, Alignment::Short),
            Self::Int4 | Self::Float4 => (AttributeLen::Fixed(4), true, Alignment::Int),
            Self::Int8 | Self::Float8 | Self::Timestamptz => {
                (AttributeLen::Fixed(8), true, Alignment::Double)
            }
            Self::Uuid => (AttributeLen::Fixed(16), false, Alignment::Char),
            Self::Fixed { len, alignment, by_value } => {
                (AttributeLen::Fixed(len), by_value, alignment)
            }
            Self::Varlena { alignment } => (AttributeLen::Varlena, false, alignment),
            Self::Bytea | Self::Json | Self::Jsonb | Self::Text | Self::Varchar => {
                (AttributeLen::Varlena, false, Alignment::Int)
            }
        };
        let storage = match len {
            AttributeLen::Varlena => Storage::Extended,
            _ => Storage::Plain,
        };
        AttributeDescriptor { len, by_value, alignment, storage, is_dropped: false, missing: None }
    }
}
