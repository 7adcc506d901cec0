//! Which attributes of a row are compressed and which go out of line.
//!
//! In plain words: a row over the threshold, a quarter of a page, or with a value out of line already, is
//! made smaller until it is down to its table's target, or until nothing is left to do. `limit` is the target
//! without the tuple's header.
//!
//! ```text
//! 1  while over the limit: take the biggest extended or external attribute that was not taken here
//!    before and is not compressed. Compress it if it is extended. If it alone is over the limit still,
//!    move it out at once.
//! 2  while over the limit: move out the biggest extended or external attribute, compressed or not.
//! 3  while over the limit: compress the biggest main attribute.
//! 4  while the tuple is over what a page holds: move out the biggest main attribute.
//! ```
//! The biggest is the first of equals, and takes more than a pointer, rounded up to 24 bytes. So an
//! incompressible attribute that alone is over the limit goes before a compressible neighbour is ever
//! tried, and a small target does nothing to rows below the threshold.
//!
//! Where the header alone is longer than the target, as with nulls among more than 840 columns and a target of
//! 128, a server's limit wraps around to a length that no row is over. Then there are no passes 1 to 3.
//!
//! Source: `heaptoast.c`, `heap_toast_insert_or_update`; `toast_helper.c` (REL_18).
use pgtoast_base::{BlockSize, MAXALIGN, maxalign, maxalign_down};
use pgtoast_page::{Storage, TupleHeader};
use pgtoast_varlena::{CompressionMethod, Tag};

use crate::{
    MoveReason, Pass, SizePolicy, Step, ToastAttribute, ToastError, TooBigReason, ValueIdWidth,
    thresholds,
};

/// The rules for the rows of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toaster {
    block_size: BlockSize,
    tuple_target: usize,
    width: ValueIdWidth,
    has_toast_relation: bool,
    policy: Option<SizePolicy>,
}

/// Why a row comes to a [`Toaster`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// Because it may be too long: if it is not over the threshold, it is left alone.
    #[default]
    Length,
    /// Because it has, or the row that it replaces had, a value out of line: it is to reach its target
    /// however short it is.
    External,
}

/// What became of a row's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the row may fit no page"]
pub struct ToastOutcome {
    tuple_len: usize,
    limit: usize,
    too_big: Option<TooBigReason>,
}

impl ToastOutcome {
    /// The length of the tuple, header included.
    #[must_use]
    pub const fn tuple_len(&self) -> usize {
        self.tuple_len
    }

    /// Why it fits no page, if it does not.
    #[must_use]
    pub const fn too_big(&self) -> Option<TooBigReason> {
        self.too_big
    }

    /// The tuple's length, if a page has room for it.
    ///
    /// # Errors
    /// [`ToastError::RowTooBig`], with the server's numbers and in its words.
    pub const fn fits(&self) -> Result<usize, ToastError> {
        match self.too_big {
            None => Ok(self.tuple_len),
            Some(_) => {
                let (size, limit) = (rounded_up(self.tuple_len), self.limit);
                Err(ToastError::RowTooBig { size, limit })
            }
        }
    }
}

impl Toaster {
    /// The server's rules for a table with a TOAST relation, 32-bit value ids and the usual target.
    #[must_use]
    pub const fn new(block_size: BlockSize) -> Self {
        Self {
            block_size,
            tuple_target: thresholds::tuple_target(block_size),
            width: ValueIdWidth::Oid,
            has_toast_relation: true,
            policy: None,
        }
    }

    /// With another target, in bytes of a tuple. It says how small rows become, not which.
    ///
    /// # Errors
    /// [`ToastError::TupleTarget`] for one that no table can set.
    #[doc(alias = "toast_tuple_target")]
    pub const fn with_tuple_target(mut self, bytes: usize) -> Result<Self, ToastError> {
        let (least, most) =
            (thresholds::MIN_TUPLE_TARGET, thresholds::main_target(self.block_size));
        if bytes < least || bytes > most {
            return Err(ToastError::TupleTarget { found: bytes, least, most });
        }
        self.tuple_target = bytes;
        Ok(self)
    }

    /// With value ids of another width, and so pointers of another length.
    #[must_use]
    pub const fn with_value_ids(mut self, width: ValueIdWidth) -> Self {
        self.width = width;
        self
    }

    /// For a table that has no TOAST relation: nothing goes out of line.
    #[must_use]
    pub const fn without_toast_relation(mut self) -> Self {
        self.has_toast_relation = false;
        self
    }

    /// With a policy that servers do not have, applied before their rules.
    #[must_use]
    pub const fn with_policy(mut self, policy: SizePolicy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// The size of its pages.
    #[must_use]
    pub const fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// How wide its value ids are.
    #[must_use]
    pub const fn value_ids(&self) -> ValueIdWidth {
        self.width
    }

    /// The bytes of a pointer: 18 or 22.
    #[must_use]
    pub const fn pointer_len(&self) -> usize {
        let tag = match self.width {
            ValueIdWidth::Oid => Tag::Oid,
            ValueIdWidth::Oid8 => Tag::Oid8,
        };
        match tag.datum_len() {
            Some(len) => len,
            None => panic!("such a pointer has one length"),
        }
    }

    /// The length of a tuple with these attributes as they are now, header included.
    #[doc(alias = "heap_compute_data_size")]
    #[must_use]
    pub fn tuple_len(attributes: &[ToastAttribute]) -> usize {
        header_len(attributes).saturating_add(data_len(attributes))
    }

    /// Decides what becomes of each attribute, which then knows; see
    /// [`ToastAttribute::decision`]. The attributes stand in the order of their columns, and a value out
    /// of line that is not carried over from the old row was fetched before.
    ///
    /// `compress` is asked for at most one compression of each attribute: by index and method, for the
    /// length of the compressed datum, headers included, or `None` where a server would keep the value as
    /// it is, which is also what becomes of one that is no shorter. It can compress, as a
    /// [`DatumCompressor`](pgtoast_codec::DatumCompressor) does, and keep the bytes, or merely know.
    ///
    /// `trace` gets each step.
    pub fn decide(
        &self,
        attributes: &mut [ToastAttribute],
        trigger: Trigger,
        compress: impl FnMut(usize, CompressionMethod) -> Option<usize>,
        trace: impl FnMut(Step),
    ) -> ToastOutcome {
        let header_len = header_len(attributes);
        Row { toaster: self, attributes, header_len, compress, trace }.run(trigger)
    }
}

/// The room a tuple takes in a page, for lengths of any size.
const fn rounded_up(tuple_len: usize) -> usize {
    maxalign_down(tuple_len.saturating_add(MAXALIGN - 1))
}

/// Where the attributes start.
fn header_len(attributes: &[ToastAttribute]) -> usize {
    let is_null = |attribute: &ToastAttribute| attribute.form() == crate::AttributeForm::Null;
    let bitmap = if attributes.iter().any(is_null) { attributes.len().div_ceil(8) } else { 0 };
    maxalign(TupleHeader::LEN + bitmap)
}

fn data_len(attributes: &[ToastAttribute]) -> usize {
    attributes.iter().fold(0, |end, attribute| attribute.end_after(end))
}

/// A row on its way through the passes.
struct Row<'a, C, T> {
    toaster: &'a Toaster,
    attributes: &'a mut [ToastAttribute],
    header_len: usize,
    compress: C,
    trace: T,
}

impl<C, T> Row<'_, C, T>
where
    C: FnMut(usize, CompressionMethod) -> Option<usize>,
    T: FnMut(Step),
{
    fn run(mut self, trigger: Trigger) -> ToastOutcome {
        if let Some(policy) = self.toaster.policy {
            self.apply(policy);
        }
        let block_size = self.toaster.block_size;
        let threshold = thresholds::tuple_threshold(block_size);
        let tuple_len = self.tuple_len();
        let target = self.toaster.tuple_target;
        if trigger == Trigger::Length && tuple_len <= threshold {
            (self.trace)(Step::LeftAlone { tuple_len, threshold });
        } else {
            (self.trace)(Step::Begin { tuple_len, target });
            match target.checked_sub(self.header_len) {
                Some(goal) => {
                    self.compress_extended(goal);
                    self.move_out(Pass::MoveOut, goal, is_extended_or_external);
                    self.compress_main(goal);
                }
                None => {
                    let header_len = self.header_len;
                    (self.trace)(Step::HeaderOverTarget { header_len, target });
                }
            }
            let page = thresholds::main_target(block_size).saturating_sub(self.header_len);
            self.move_out(Pass::MoveOutMain, page, is_main);
        }
        self.outcome()
    }

    /// What the policy asks for, whatever the length of the row.
    fn apply(&mut self, policy: SizePolicy) {
        let pass = Pass::Policy;
        for index in 0..self.attributes.len() {
            let attribute = self.attributes[index];
            let len = attribute.datum_len();
            if !attribute.is_movable() {
                continue;
            }
            if len > policy.compress_over && attribute.is_untried() {
                self.try_to_compress(pass, index);
            }
            if len > policy.move_out_over && len > self.least() && self.toaster.has_toast_relation {
                let why = MoveReason::OverLimit { limit: policy.move_out_over };
                self.set_moved_out(pass, index, why);
            }
        }
    }

    fn compress_extended(&mut self, goal: usize) {
        let pass = Pass::Compress;
        while data_len(self.attributes) > goal {
            let Some(index) = self.biggest(|one| one.is_untried() && is_extended_or_external(one))
            else {
                return self.nothing_left(pass, goal);
            };
            self.try_to_compress(pass, index);
            if self.attributes[index].datum_len() > goal && self.toaster.has_toast_relation {
                self.set_moved_out(pass, index, MoveReason::AloneOverGoal { goal });
            }
        }
    }

    fn compress_main(&mut self, goal: usize) {
        let pass = Pass::CompressMain;
        while data_len(self.attributes) > goal {
            let Some(index) = self.biggest(|one| one.is_untried() && is_main(one)) else {
                return self.nothing_left(pass, goal);
            };
            self.try_to_compress(pass, index);
        }
    }

    fn move_out(&mut self, pass: Pass, goal: usize, is_meant: fn(&ToastAttribute) -> bool) {
        while data_len(self.attributes) > goal {
            if !self.toaster.has_toast_relation {
                let (tuple_len, goal) = (self.tuple_len(), goal + self.header_len);
                return (self.trace)(Step::NoToastRelation { pass, tuple_len, goal });
            }
            let Some(index) = self.biggest(|one| one.is_movable() && is_meant(one)) else {
                return self.nothing_left(pass, goal);
            };
            self.set_moved_out(pass, index, MoveReason::Biggest);
        }
    }

    /// The attribute to take next: the biggest of those meant, the first of equals, if one takes more
    /// than a pointer.
    fn biggest(&self, is_meant: impl Fn(&ToastAttribute) -> bool) -> Option<usize> {
        let mut biggest = None;
        let mut biggest_len = self.least();
        for (index, attribute) in self.attributes.iter().enumerate() {
            if attribute.datum_len() > biggest_len && is_meant(attribute) {
                (biggest, biggest_len) = (Some(index), attribute.datum_len());
            }
        }
        biggest
    }

    /// What an attribute must be over to be worth a pointer.
    fn least(&self) -> usize {
        maxalign(self.toaster.pointer_len())
    }

    fn try_to_compress(&mut self, pass: Pass, attribute: usize) {
        let before = self.attributes[attribute];
        let (len, method) = (before.datum_len(), before.method());
        if before.storage() == Storage::External {
            self.attributes[attribute].refuse_compression();
            return (self.trace)(Step::NotToCompress { pass, attribute, len });
        }
        match (self.compress)(attribute, method).filter(|to| *to < len) {
            Some(to) => {
                self.attributes[attribute].set_compressed(to);
                (self.trace)(Step::Compressed { pass, attribute, method, from: len, to });
            }
            None => {
                self.attributes[attribute].refuse_compression();
                (self.trace)(Step::Incompressible { pass, attribute, method, len });
            }
        }
    }

    fn set_moved_out(&mut self, pass: Pass, attribute: usize, why: MoveReason) {
        let (len, pointer_len) =
            (self.attributes[attribute].datum_len(), self.toaster.pointer_len());
        self.attributes[attribute].set_moved_out(pointer_len);
        (self.trace)(Step::MovedOut { pass, attribute, len, pointer_len, why });
    }

    fn nothing_left(&mut self, pass: Pass, goal: usize) {
        let (tuple_len, goal) = (self.tuple_len(), goal + self.header_len);
        (self.trace)(Step::NothingLeft { pass, tuple_len, goal });
    }

    fn tuple_len(&self) -> usize {
        self.header_len.saturating_add(data_len(self.attributes))
    }

    fn outcome(&mut self) -> ToastOutcome {
        let (tuple_len, limit) =
            (self.tuple_len(), thresholds::main_target(self.toaster.block_size));
        // The limit is a multiple of what a tuple's length is rounded up to.
        let too_big = (tuple_len > limit).then(|| {
            let could_go =
                |one: &ToastAttribute| one.is_movable() && one.datum_len() > self.least();
            match self.attributes.iter().any(could_go) {
                true if !self.toaster.has_toast_relation => TooBigReason::NoToastRelation,
                true => TooBigReason::HeaderOverTarget,
                false => TooBigReason::NothingLeft,
            }
        });
        (self.trace)(match too_big {
            None => Step::Done { tuple_len },
            Some(reason) => {
                let size = rounded_up(tuple_len);
                Step::TooBig { size, limit, reason }
            }
        });
        ToastOutcome { tuple_len, limit, too_big }
    }
}

fn is_extended_or_external(attribute: &ToastAttribute) -> bool {
    matches!(attribute.storage(), Storage::Extended | Storage::External)
}

fn is_main(attribute: &ToastAttribute) -> bool {
    attribute.storage() == Storage::Main
}
