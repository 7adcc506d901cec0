//! Items into groups.
#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths to 273, distances to 4095, their bytes"
)]
use crate::format::{MATCH_LONG, MATCH_MIN};

/// The stream being written. The caller has made sure of its room: see
/// [`maximum_output_size`](crate::maximum_output_size).
pub(crate) struct Output<'a> {
    target: &'a mut [u8],
    /// Bytes written, those that the current group's control byte will take included.
    len: usize,
    /// Where the current group's control byte goes once the group is full.
    control_at: usize,
    control: u32,
    /// The control bit of the next item; beyond the byte if it needs a new group.
    bit: u32,
    /// At this length the value is given up. Until the first match two limits hold, then one.
    stop: usize,
    output_limit: usize,
}

impl<'a> Output<'a> {
    pub(crate) fn new(target: &'a mut [u8], output_limit: usize, first_success_by: usize) -> Self {
        let stop = output_limit.min(first_success_by);
        Self { target, len: 0, control_at: 0, control: 0, bit: 0x100, stop, output_limit }
    }

    /// Whether the value is not worth another item.
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.len >= self.stop
    }

    /// Starts an item, in a new group if the current one is full.
    #[inline(always)]
    fn item(&mut self) {
        if self.bit == 0x100 {
            self.target[self.control_at] = self.control as u8;
            self.control_at = self.len;
            self.len += 1;
            (self.control, self.bit) = (0, 1);
        }
    }

    #[inline(always)]
    pub(crate) fn literal(&mut self, byte: u8) {
        self.item();
        self.bit <<= 1;
        self.target[self.len] = byte;
        self.len += 1;
    }

    #[inline(always)]
    pub(crate) fn tag(&mut self, len: usize, distance: usize) {
        self.item();
        self.stop = self.output_limit;
        self.control |= self.bit;
        self.bit <<= 1;
        let short = (len.min(MATCH_LONG) - MATCH_MIN) as u8;
        let long = len.wrapping_sub(MATCH_LONG) as u8;
        // The third byte is written at any rate; there is room, and the next item writes over it.
        let tag = [((distance >> 8) as u8) << 4 | short, distance as u8, long];
        if let Some(room) = self.target.get_mut(self.len..self.len + 3) {
            room.copy_from_slice(&tag);
        }
        self.len += 2 + usize::from(len >= MATCH_LONG);
    }

    /// Writes the last control byte and says how many bytes there are.
    pub(crate) fn finish(self) -> usize {
        if self.len > 0 {
            self.target[self.control_at] = self.control as u8;
        }
        self.len
    }
}
