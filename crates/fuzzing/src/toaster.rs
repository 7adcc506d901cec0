//! Whatever a row looks like, the toaster ends, keeps to what columns allow, and either makes the row fit or
//! says why it cannot.
use pgtoast_base::{Alignment, BlockSize, maxalign};
use pgtoast_page::Storage;
use pgtoast_toast::{
    AttributeForm, Decision, MoveReason, SizePolicy, Step, ToastAttribute, Toaster, TooBigReason,
    Trigger, ValueIdWidth, thresholds,
};
use pgtoast_varlena::CompressionMethod;

use crate::input::Input;

/// Six bytes of settings, then six for each attribute: form, storage and alignment, length, compressed
/// length.
pub fn toaster_decisions(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = input.u8();
    let sizes = [
        BlockSize::KIB_1,
        BlockSize::KIB_2,
        BlockSize::KIB_4,
        BlockSize::KIB_8,
        BlockSize::KIB_16,
        BlockSize::KIB_32,
    ];
    let block_size = sizes[usize::from(choices & 7) % sizes.len()];
    let target = usize::from(input.u16());
    let policy = SizePolicy {
        move_out_over: usize::from(input.u8()) * 16,
        compress_over: usize::from(input.u8()) * 64,
    };
    let more = input.u8();
    let mut toaster = Toaster::new(block_size);
    let most = thresholds::main_target(block_size);
    match toaster.with_tuple_target(target) {
        Ok(with_target) => toaster = with_target,
        Err(_) => assert!(target < thresholds::MIN_TUPLE_TARGET || target > most),
    }
    let has_toast_relation = choices & 8 == 0;
    if !has_toast_relation {
        toaster = toaster.without_toast_relation();
    }
    if choices & 16 != 0 {
        toaster = toaster.with_value_ids(ValueIdWidth::Oid8);
    }
    let has_policy = choices & 32 != 0;
    if has_policy {
        toaster = toaster.with_policy(policy);
    }
    let trigger = if choices & 64 == 0 { Trigger::Length } else { Trigger::External };
    let rest = input.rest();
    // Many equal columns from few bytes: rows of tables with hundreds of them.
    let repeat = if more & 3 == 3 { usize::from(more >> 2) + 1 } else { 1 };
    let cells: Vec<_> = rest.chunks_exact(6).map(Cell::of).collect();
    let cells: Vec<Cell> = std::iter::repeat_n(cells, repeat).flatten().take(1664).collect();
    let before: Vec<_> = cells.iter().map(|cell| cell.attribute(&toaster)).collect();
    let rules = Rules { toaster, block_size, trigger, has_toast_relation, has_policy };
    let first = rules.run(&cells, before.clone());
    assert_eq!(first, rules.run(&cells, before), "the same row, another decision");
}

struct Rules {
    toaster: Toaster,
    block_size: BlockSize,
    trigger: Trigger,
    has_toast_relation: bool,
    has_policy: bool,
}

impl Rules {
    fn run(&self, cells: &[Cell], before: Vec<ToastAttribute>) -> Vec<ToastAttribute> {
        let mut after = before.clone();
        let mut tries = vec![0; cells.len()];
        let mut steps = Vec::new();
        let outcome = self.toaster.decide(
            &mut after,
            self.trigger,
            |index, method| {
                assert_eq!(method, before[index].method());
                tries[index] += 1;
                cells[index].compressed_len
            },
            |step| steps.push(step),
        );
        assert_eq!(outcome.tuple_len(), Toaster::tuple_len(&after));
        for (index, (before, after)) in before.iter().zip(&after).enumerate() {
            self.check(&cells[index], before, after);
            assert!(tries[index] <= 1, "column {index} was compressed {} times", tries[index]);
        }
        self.check_steps(&before, &after, &steps);

        let limit = thresholds::main_target(self.block_size);
        let size = maxalign(outcome.tuple_len());
        assert_eq!(outcome.too_big().is_some(), size > limit, "{size} of {limit}");
        assert_eq!(outcome.fits().is_err(), size > limit);
        let could_go = |one: &ToastAttribute| self.is_movable(one) && one.datum_len() > 24;
        match outcome.too_big() {
            None => {}
            Some(TooBigReason::NoToastRelation) => {
                assert!(!self.has_toast_relation && after.iter().any(could_go));
            }
            Some(TooBigReason::HeaderOverTarget) => {
                let told = |step: &Step| matches!(step, Step::HeaderOverTarget { .. });
                assert!(self.has_toast_relation && steps.iter().any(told));
            }
            Some(TooBigReason::NothingLeft) => assert!(!after.iter().any(could_go)),
        }
        let is_left_alone = steps.iter().any(|step| matches!(step, Step::LeftAlone { .. }));
        if is_left_alone {
            assert!(outcome.tuple_len() <= thresholds::tuple_threshold(self.block_size));
            assert_eq!(self.trigger, Trigger::Length);
            assert!(self.has_policy || before == after);
        }
        after
    }

    fn is_movable(&self, one: &ToastAttribute) -> bool {
        let is_here = matches!(
            one.form(),
            AttributeForm::Short | AttributeForm::Long | AttributeForm::Compressed
        );
        is_here && one.storage() != Storage::Plain
    }

    fn check(&self, cell: &Cell, before: &ToastAttribute, after: &ToastAttribute) {
        let decision = after.decision();
        if decision == Decision::Keep {
            assert_eq!((before.form(), before.datum_len()), (after.form(), after.datum_len()));
            return;
        }
        assert!(self.is_movable(before), "{before:?} {decision:?}");
        let is_raw = before.form() != AttributeForm::Compressed;
        let (compressed, moved_out) = match decision {
            Decision::Compress { datum_len } => (Some(datum_len), None),
            Decision::CompressAndMoveOut { datum_len } => (Some(datum_len), Some(datum_len)),
            Decision::MoveOut { datum_len } => (None, Some(datum_len)),
            Decision::Keep => (None, None),
        };
        if let Some(len) = compressed {
            assert!(is_raw && before.storage() != Storage::External);
            assert!(cell.compressed_len == Some(len) && len < before.datum_len());
        }
        match moved_out {
            None => assert_eq!(after.form(), AttributeForm::Compressed),
            Some(len) => {
                assert!(self.has_toast_relation);
                assert_eq!(after.datum_len(), self.toaster.pointer_len());
                assert_eq!(len, compressed.unwrap_or(before.datum_len()));
                assert_eq!(after.form(), AttributeForm::Pointer);
            }
        }
    }

    /// The trace tells everything that happened, each thing once, and ends with the outcome.
    fn check_steps(&self, before: &[ToastAttribute], after: &[ToastAttribute], steps: &[Step]) {
        let mut told: Vec<_> = before.iter().map(ToastAttribute::datum_len).collect();
        for (index, step) in steps.iter().enumerate() {
            assert!(!step.to_string().is_empty());
            match *step {
                Step::Compressed { attribute, from, to, .. } => {
                    assert_eq!(told[attribute], from);
                    told[attribute] = to;
                }
                Step::MovedOut { attribute, len, pointer_len, why, .. } => {
                    assert_eq!(told[attribute], len);
                    // A long header can make the goal shorter than a pointer.
                    match why {
                        MoveReason::AloneOverGoal { goal } => assert!(len > goal),
                        MoveReason::Biggest => assert!(len > 24),
                        MoveReason::OverLimit { limit } => {
                            assert!(before[attribute].datum_len() > limit.max(24));
                        }
                    }
                    told[attribute] = pointer_len;
                }
                Step::Done { .. } | Step::TooBig { .. } => assert_eq!(index, steps.len() - 1),
                _ => {}
            }
        }
        assert!(matches!(steps.last(), Some(Step::Done { .. } | Step::TooBig { .. })));
        let lens: Vec<_> = after.iter().map(ToastAttribute::datum_len).collect();
        assert_eq!(told, lens);
    }
}

/// An attribute of the input.
#[derive(Clone, Copy)]
struct Cell {
    form: u8,
    column: u8,
    len: usize,
    compressed_len: Option<usize>,
}

impl Cell {
    fn of(bytes: &[u8]) -> Self {
        let mut input = Input::new(bytes);
        let (form, column) = (input.u8(), input.u8());
        let len = usize::from(input.u16());
        let compressed_len = Some(usize::from(input.u16())).filter(|len| *len != 0);
        Self { form, column, len, compressed_len }
    }

    fn attribute(&self, toaster: &Toaster) -> ToastAttribute {
        let storages = [Storage::Extended, Storage::External, Storage::Main, Storage::Plain];
        let alignments = [Alignment::Int, Alignment::Double, Alignment::Char, Alignment::Short];
        let storage = storages[usize::from(self.column & 3)];
        let alignment = alignments[usize::from(self.column >> 2 & 3)];
        let attribute = match self.form & 7 {
            0 => ToastAttribute::null(),
            1 => ToastAttribute::fixed(self.len % 300, alignment),
            2 => ToastAttribute::compressed(self.len.max(9), storage, alignment),
            3 => ToastAttribute::pointer(toaster.pointer_len(), storage),
            4 => ToastAttribute::varlena(self.len % 200, storage, alignment),
            _ => ToastAttribute::varlena(self.len, storage, alignment),
        };
        if self.form & 8 == 0 { attribute } else { attribute.with_method(CompressionMethod::Lz4) }
    }
}
