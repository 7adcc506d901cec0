//! Types that every server has.
use pgtoast_base::{Alignment, Oid};
use pgtoast_page::{AttributeDescriptor, AttributeLen, Storage};

/// A type that every server has: its id, its name and how its values lie in a tuple.
///
/// Source: `pg_type.dat` (REL_18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltinType {
    /// Its id.
    pub id: Oid,
    /// What a server calls it.
    #[doc(alias = "format_type")]
    pub name: &'static str,
    /// How its values lie in a tuple.
    pub attribute: AttributeDescriptor<'static>,
    /// Of an array, the id of its elements' type.
    pub element: Option<Oid>,
}

macro_rules! types {
    ($($constant:ident = $id:literal, $name:literal, $shape:expr, $element:expr;)*) => {
        impl BuiltinType {
            $(
                #[doc = concat!("`", $name, "`.")]
                pub const $constant: Self = Self {
                    id: Oid::new($id),
                    name: $name,
                    attribute: $shape,
                    element: $element,
                };
            )*

            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];
        }
    };
}

types! {
    BOOL = 16, "boolean", fixed(1, Alignment::Char), None;
    BYTEA = 17, "bytea", varlena(Alignment::Int), None;
    CHAR = 18, "\"char\"", fixed(1, Alignment::Char), None;
    NAME = 19, "name", fixed(64, Alignment::Char), None;
    INT8 = 20, "bigint", fixed(8, Alignment::Double), None;
    INT2 = 21, "smallint", fixed(2, Alignment::Short), None;
    INT4 = 23, "integer", fixed(4, Alignment::Int), None;
    TEXT = 25, "text", varlena(Alignment::Int), None;
    OID = 26, "oid", fixed(4, Alignment::Int), None;
    JSON = 114, "json", varlena(Alignment::Int), None;
    FLOAT4 = 700, "real", fixed(4, Alignment::Int), None;
    FLOAT8 = 701, "double precision", fixed(8, Alignment::Double), None;
    INT2_ARRAY = 1005, "smallint[]", varlena(Alignment::Int), Some(Oid::new(21));
    INT4_ARRAY = 1007, "integer[]", varlena(Alignment::Int), Some(Oid::new(23));
    TEXT_ARRAY = 1009, "text[]", varlena(Alignment::Int), Some(Oid::new(25));
    INT8_ARRAY = 1016, "bigint[]", varlena(Alignment::Double), Some(Oid::new(20));
    FLOAT8_ARRAY = 1022, "double precision[]", varlena(Alignment::Double), Some(Oid::new(701));
    BPCHAR = 1042, "character", varlena(Alignment::Int), None;
    VARCHAR = 1043, "character varying", varlena(Alignment::Int), None;
    DATE = 1082, "date", fixed(4, Alignment::Int), None;
    TIMESTAMP = 1114, "timestamp without time zone", fixed(8, Alignment::Double), None;
    BIT = 1560, "bit", varlena(Alignment::Int), None;
    VARBIT = 1562, "bit varying", varlena(Alignment::Int), None;
    NUMERIC = 1700, "numeric", main(), None;
    UUID = 2950, "uuid", fixed(16, Alignment::Char), None;
}

impl BuiltinType {
    /// The type of that id.
    #[must_use]
    pub fn of(id: Oid) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.id == id)
    }
}

const fn fixed(bytes: u16, alignment: Alignment) -> AttributeDescriptor<'static> {
    AttributeDescriptor {
        len: AttributeLen::Fixed(bytes),
        by_value: matches!(bytes, 1 | 2 | 4 | 8),
        alignment,
        storage: Storage::Plain,
        is_dropped: false,
        missing: None,
    }
}

const fn varlena(alignment: Alignment) -> AttributeDescriptor<'static> {
    AttributeDescriptor {
        len: AttributeLen::Varlena,
        by_value: false,
        alignment,
        storage: Storage::Extended,
        is_dropped: false,
        missing: None,
    }
}

const fn main() -> AttributeDescriptor<'static> {
    AttributeDescriptor { storage: Storage::Main, ..varlena(Alignment::Int) }
}
