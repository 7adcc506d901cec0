//! What a server says of its own pages and columns: the other side of a comparison.

/// A column as `pg_attribute` describes it, dropped ones included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name; a dropped column's is made up by the server.
    pub name: String,
    /// Its type as SQL writes it; `-` for a dropped column.
    pub type_name: String,
    /// Bytes of a value, -1 for a varlena, -2 for a zero-terminated string.
    pub len: i16,
    /// `c`, `s`, `i` or `d`: aligned to 1, 2, 4 or 8 bytes.
    pub align: char,
    /// Whether a value is passed in a register.
    pub by_value: bool,
    /// `p`, `e`, `m` or `x`: plain, external, main or extended.
    pub storage: char,
    /// Whether the column was dropped.
    pub dropped: bool,
    /// Whether tuples without this column have a value other than null.
    pub has_missing: bool,
}

impl Attribute {
    /// What a value is aligned to in bytes.
    ///
    /// # Panics
    /// When [`Attribute::align`] is none of the four letters.
    #[must_use]
    pub fn align_bytes(&self) -> usize {
        match self.align {
            'c' => 1,
            's' => 2,
            'i' => 4,
            'd' => 8,
            other => panic!("no alignment is called {other:?}"),
        }
    }
}

/// A line pointer, and the tuple it leads to, as `heap_page_items` and `tuple_data_split` give them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapItem {
    /// Number of the line pointer, from 1.
    pub item: u16,
    /// Where it leads: a byte of the page, or an item for a redirect.
    pub offset: u16,
    /// 0 unused, 1 normal, 2 redirect, 3 dead.
    pub flags: u16,
    /// Bytes of the tuple.
    pub len: u16,
    /// The tuple, for a normal line pointer.
    pub tuple: Option<HeapTuple>,
}

/// A heap tuple's header fields and attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapTuple {
    /// Who inserted it.
    pub xmin: u32,
    /// Who deleted or locked it.
    pub xmax: u32,
    /// Command id or vacuum's transaction.
    pub field3: u32,
    /// Block and item of this or the next version.
    pub ctid: (u32, u16),
    /// Number of attributes and flags.
    pub infomask2: u16,
    /// Flags.
    pub infomask: u16,
    /// Bytes up to the data.
    pub header_len: u8,
    /// One for each column of the table: the bytes as they are stored, or `None` for a null and
    /// for a column the tuple is too old to have.
    pub attributes: Vec<Option<Vec<u8>>>,
}

/// The page header as `page_header` gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Position in the log of the last change.
    pub lsn: u64,
    /// As stored; 0 where checksums are off.
    pub checksum: u16,
    /// Flag bits.
    pub flags: u16,
    /// End of the line pointers.
    pub lower: u16,
    /// Start of the tuples.
    pub upper: u16,
    /// Start of the special space.
    pub special: u16,
    /// Bytes of the page.
    pub page_size: u16,
    /// Layout version.
    pub version: u8,
    /// Oldest transaction whose end may let something be pruned; 0 for none.
    pub prune_xid: u32,
}
