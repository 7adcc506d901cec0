//! Values as text, for the types where a few lines are enough.
use crate::base::Oid;
use crate::datadir::{Database, Type};

/// What kind of text a value of some type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// Its bytes are the text.
    Itself,
    /// `t` or `f`.
    Bool,
    /// A number of so many bytes, signed or not.
    Integer {
        /// How many bytes.
        bytes: u8,
        /// Whether it can be negative.
        is_signed: bool,
    },
    /// Hexadecimal digits behind `\x`.
    Hex,
    /// Text up to the first zero byte.
    Name,
    /// `550e8400-e29b-41d4-a716-446655440000`.
    Uuid,
}

impl TextKind {
    /// That of a type; `None` for those whose text this crate does not know. A domain has that of what
    /// it is made of.
    #[must_use]
    pub fn of(database: &Database, type_oid: Oid) -> Option<Self> {
        let mut found = database.type_of(type_oid)?;
        // Domains over domains are few; whatever the catalog says, the walk ends.
        for _ in 0..32 {
            match found.kind {
                b'd' => found = database.type_of(found.base)?,
                b'b' => return Self::of_base(found),
                _ => return None,
            }
        }
        None
    }

    fn of_base(found: &Type) -> Option<Self> {
        if found.element.is_valid() && found.category == b'A' {
            return None;
        }
        let integer = |bytes, is_signed| Some(Self::Integer { bytes, is_signed });
        match found.name.as_str() {
            "bool" => Some(Self::Bool),
            "int2" => integer(2, true),
            "int4" => integer(4, true),
            "int8" => integer(8, true),
            "oid" | "xid" | "cid" => integer(4, false),
            "bytea" => Some(Self::Hex),
            "name" => Some(Self::Name),
            "uuid" => Some(Self::Uuid),
            "json" | "xml" => Some(Self::Itself),
            "text" | "varchar" | "bpchar" | "citext" => Some(Self::Itself),
            _ => None,
        }
    }

    /// The text of a value of fixed length; `None` if its bytes are not of this kind.
    #[must_use]
    pub fn fixed(self, bytes: &[u8]) -> Option<String> {
        match self {
            Self::Bool => match bytes {
                [0] => Some("f".to_owned()),
                [1] => Some("t".to_owned()),
                _ => None,
            },
            Self::Integer { bytes: len, is_signed } => {
                if bytes.len() != usize::from(len) {
                    return None;
                }
                // Filled up with copies of the sign.
                let is_negative = is_signed && bytes.last().is_some_and(|last| last & 0x80 != 0);
                let mut wide = [if is_negative { 0xff } else { 0 }; 8];
                wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
                Some(i64::from_le_bytes(wide).to_string())
            }
            Self::Name => {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                core::str::from_utf8(&bytes[..end]).ok().map(str::to_owned)
            }
            Self::Uuid => {
                let bytes: &[u8; 16] = bytes.try_into().ok()?;
                let mut text = String::with_capacity(36);
                for (index, byte) in bytes.iter().enumerate() {
                    if matches!(index, 4 | 6 | 8 | 10) {
                        text.push('-');
                    }
                    text.push_str(&format!("{byte:02x}"));
                }
                Some(text)
            }
            Self::Itself | Self::Hex => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_with_their_sign() {
        let int2 = TextKind::Integer { bytes: 2, is_signed: true };
        assert_eq!(int2.fixed(&[0xff, 0xff]).as_deref(), Some("-1"));
        assert_eq!(int2.fixed(&[0x39, 0x30]).as_deref(), Some("12345"));
        assert_eq!(int2.fixed(&[0]), None);
        let oid = TextKind::Integer { bytes: 4, is_signed: false };
        assert_eq!(oid.fixed(&[0xff; 4]).as_deref(), Some("4294967295"));
        let int8 = TextKind::Integer { bytes: 8, is_signed: true };
        assert_eq!(int8.fixed(&i64::MIN.to_le_bytes()), Some(i64::MIN.to_string()));
    }

    #[test]
    fn a_boolean_is_one_of_two_bytes() {
        assert_eq!(TextKind::Bool.fixed(&[1]).as_deref(), Some("t"));
        assert_eq!(TextKind::Bool.fixed(&[2]), None);
    }

    #[test]
    fn a_uuid_has_its_dashes() {
        let bytes: [u8; 16] = core::array::from_fn(|at| u8::try_from(at * 17).unwrap());
        assert_eq!(
            TextKind::Uuid.fixed(&bytes).as_deref(),
            Some("00112233-4455-6677-8899-aabbccddeeff")
        );
    }
}
