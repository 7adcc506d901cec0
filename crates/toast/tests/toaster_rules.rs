//! Which values of a row are compressed and which go out of line: the lengths at which real servers change
//! their mind, and the order in which they take columns.
//! Source: `heaptoast.c`, `heap_toast_insert_or_update`; `toast_helper.c` (REL_18); servers of 15 and 18.
use pgtoast_base::{Alignment, BlockSize};
use pgtoast_page::Storage;
use pgtoast_toast::{
    Decision, MoveReason, Pass, SizePolicy, Step, ToastAttribute, ToastError, ToastOutcome,
    Toaster, TooBigReason, Trigger, ValueIdWidth,
};
use pgtoast_varlena::CompressionMethod;

const TOASTER: Toaster = Toaster::new(BlockSize::KIB_8);

fn int4() -> ToastAttribute {
    ToastAttribute::fixed(4, Alignment::Int)
}

fn varlena(payload_len: usize, storage: Storage) -> ToastAttribute {
    ToastAttribute::varlena(payload_len, storage, Alignment::Int)
}

/// Decides with compressed lengths by column, `None` where compression is refused.
fn decide(
    toaster: Toaster,
    attributes: &mut [ToastAttribute],
    compressed: &[Option<usize>],
) -> (ToastOutcome, Vec<Step>) {
    let mut steps = Vec::new();
    let outcome = toaster.decide(
        attributes,
        Trigger::Length,
        |index, _| compressed.get(index).copied().flatten(),
        |step| steps.push(step),
    );
    assert_eq!(outcome.tuple_len(), Toaster::tuple_len(attributes));
    (outcome, steps)
}

fn decisions(attributes: &[ToastAttribute]) -> Vec<Decision> {
    attributes.iter().map(ToastAttribute::decision).collect()
}

fn is_out(attribute: &ToastAttribute) -> bool {
    matches!(attribute.decision(), Decision::MoveOut { .. } | Decision::CompressAndMoveOut { .. })
}

#[test]
fn a_tuple_of_2032_bytes_stays_and_one_of_2033_goes() {
    for (payload_len, before, goes, after) in [(2000, 2032, false, 2032), (2001, 2033, true, 46)] {
        let mut row = [int4(), varlena(payload_len, Storage::External)];
        assert_eq!(Toaster::tuple_len(&row), before);
        let (outcome, _) = decide(TOASTER, &mut row, &[]);
        assert_eq!((is_out(&row[1]), outcome.fits()), (goes, Ok(after)), "{payload_len}");
    }
}

/// People set the target to 128 and wonder why their rows of 1500 bytes stay as they are: it says how small
/// a row is made, and not which.
#[test]
fn a_target_of_128_does_nothing_to_rows_below_the_threshold() {
    let toaster = TOASTER.with_tuple_target(128).unwrap();
    for (payload_len, goes) in [(1500, false), (1984, false), (2048, true)] {
        let mut row = [int4(), varlena(payload_len, Storage::External)];
        let (_, steps) = decide(toaster, &mut row, &[]);
        assert_eq!(is_out(&row[1]), goes, "{payload_len}");
        if !goes {
            let tuple_len = 32 + payload_len;
            assert_eq!(steps[0], Step::LeftAlone { tuple_len, threshold: 2032 });
            assert!(steps[0].to_string().ends_with("not over 2032, whatever the target"));
        }
    }
    // Beside a value that is out already the same row is made as small as the target asks.
    let mut row =
        [int4(), varlena(1500, Storage::External), ToastAttribute::pointer(18, Storage::External)];
    let outcome = toaster.decide(&mut row, Trigger::External, |_, _| None, |_| {});
    assert!(is_out(&row[1]));
    assert_eq!(outcome.fits(), Ok(24 + 4 + 18 + 18));
}

#[test]
fn a_target_is_128_to_what_a_page_holds() {
    for found in [0, 127, 8161] {
        let error = ToastError::TupleTarget { found, least: 128, most: 8160 };
        assert_eq!(TOASTER.with_tuple_target(found), Err(error));
    }
    assert!(TOASTER.with_tuple_target(128).is_ok() && TOASTER.with_tuple_target(8160).is_ok());
    assert!(Toaster::new(BlockSize::KIB_4).with_tuple_target(4065).is_err());
}

#[test]
fn main_columns_stay_until_the_tuple_fills_a_page() {
    let mut row = [int4(), varlena(3840, Storage::Main), varlena(3200, Storage::Main)];
    let (outcome, _) = decide(TOASTER, &mut row, &[]);
    assert_eq!((outcome.fits(), decisions(&row)), (Ok(7076), vec![Decision::Keep; 3]));

    // Of two equal ones the first goes, and that is enough.
    let mut row = [int4(), varlena(6400, Storage::Main), varlena(6400, Storage::Main)];
    let (outcome, steps) = decide(TOASTER, &mut row, &[]);
    assert!(is_out(&row[1]) && !is_out(&row[2]));
    assert_eq!(outcome.fits(), Ok(24 + 4 + 18 + 2 + 6404));
    let moved = Step::MovedOut {
        pass: Pass::MoveOutMain,
        attribute: 1,
        len: 6404,
        pointer_len: 18,
        why: MoveReason::Biggest,
    };
    assert!(steps.contains(&moved), "{steps:?}");

    for (payload_len, goes) in [(8160 - 24 - 4 - 4, false), (8160 - 24 - 4 - 3, true)] {
        let mut row = [int4(), varlena(payload_len, Storage::Main)];
        let _ = decide(TOASTER, &mut row, &[]);
        assert_eq!(is_out(&row[1]), goes, "{payload_len}");
    }
}

#[test]
fn a_main_column_that_compresses_is_compressed_before_any_goes() {
    let mut row = [varlena(6400, Storage::Main), varlena(6000, Storage::Main)];
    let (outcome, _) = decide(TOASTER, &mut row, &[Some(900), Some(700)]);
    let expected = [Decision::Compress { datum_len: 900 }, Decision::Compress { datum_len: 700 }];
    assert_eq!(decisions(&row), expected);
    assert_eq!(outcome.fits(), Ok(24 + 900 + 700));
}

#[test]
fn plain_columns_do_not_fit_and_the_row_is_told_as_the_server_tells_it() {
    let mut row = [int4(), varlena(8200, Storage::Plain)];
    let (outcome, steps) = decide(TOASTER, &mut row, &[Some(10), Some(10)]);
    assert_eq!(outcome.too_big(), Some(TooBigReason::NothingLeft));
    let error = outcome.fits().unwrap_err();
    assert_eq!(error, ToastError::RowTooBig { size: 8232, limit: 8160 });
    assert_eq!(error.to_string(), "row is too big: size 8232, maximum size 8160");
    assert!(matches!(steps.last(), Some(Step::TooBig { size: 8232, .. })));
}

/// Tables with hundreds of small columns: what takes no more than a pointer, rounded up, cannot be moved.
#[test]
fn three_hundred_texts_of_30_bytes_fit_and_four_hundred_of_20_do_not() {
    let mut row = vec![varlena(30, Storage::Extended); 300];
    let (outcome, _) = decide(TOASTER, &mut row, &[]);
    assert!(outcome.fits().is_ok());
    assert!(row.iter().all(is_out), "all go, and the target is not reached");
    assert_eq!(outcome.tuple_len(), 24 + 300 * 18);

    let mut row = vec![varlena(20, Storage::Extended); 400];
    let (outcome, _) = decide(TOASTER, &mut row, &[]);
    assert_eq!(outcome.fits(), Err(ToastError::RowTooBig { size: 8424, limit: 8160 }));
    assert_eq!(outcome.too_big(), Some(TooBigReason::NothingLeft));
    assert_eq!(decisions(&row), vec![Decision::Keep; 400]);
}

#[test]
fn a_short_value_of_25_bytes_may_go_and_one_of_24_may_not() {
    let toaster = TOASTER.with_tuple_target(128).unwrap();
    for (payload_len, goes) in [(23, false), (24, true)] {
        for width in [ValueIdWidth::Oid, ValueIdWidth::Oid8] {
            let mut row = [
                ToastAttribute::fixed(2100, Alignment::Char),
                varlena(payload_len, Storage::External),
            ];
            let _ = decide(toaster.with_value_ids(width), &mut row, &[]);
            assert_eq!(is_out(&row[1]), goes, "{payload_len}, {width:?}");
            if goes {
                assert_eq!(row[1].datum_len(), if width == ValueIdWidth::Oid { 18 } else { 22 });
            }
        }
    }
}

#[test]
fn an_incompressible_column_goes_before_its_neighbour_is_compressed() {
    let mut row = [varlena(1000, Storage::Extended), varlena(2500, Storage::Extended)];
    let (_, steps) = decide(TOASTER, &mut row, &[Some(40), None]);
    assert_eq!(decisions(&row), [Decision::Keep, Decision::MoveOut { datum_len: 2504 }]);
    let words: Vec<_> = steps.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "a row of 3532 bytes is to become 2032 or less",
            "pass 1: column 2 of 2504 bytes stays as it is: pglz would not save enough",
            "pass 1: column 2 moved out of line, 2504 bytes to a pointer of 18: it alone is over the 2008 \
         bytes that all columns have",
            "the row takes 1046 bytes",
        ]
    );
}

#[test]
fn all_are_compressed_before_the_second_pass_moves_the_biggest() {
    let mut row = [
        varlena(9000, Storage::Extended),
        varlena(9000, Storage::Extended),
        varlena(1500, Storage::External),
    ];
    let (outcome, _) = decide(TOASTER, &mut row, &[Some(1200), Some(1300), Some(1)]);
    // The external one is the biggest once both are compressed, and moving it is not enough.
    assert_eq!(
        decisions(&row),
        [
            Decision::Compress { datum_len: 1200 },
            Decision::CompressAndMoveOut { datum_len: 1300 },
            Decision::MoveOut { datum_len: 1504 },
        ]
    );
    assert_eq!(outcome.fits(), Ok(24 + 1200 + 18 + 18));
}

#[test]
fn what_arrives_compressed_is_not_compressed_again_and_may_still_go() {
    let mut row = [
        ToastAttribute::compressed(1500, Storage::Extended, Alignment::Int),
        varlena(1000, Storage::Extended),
    ];
    let mut asked = Vec::new();
    let outcome = TOASTER.decide(
        &mut row,
        Trigger::Length,
        |index, method| {
            asked.push((index, method));
            None
        },
        |_| {},
    );
    assert_eq!(asked, [(1, CompressionMethod::Pglz)]);
    assert_eq!(decisions(&row), [Decision::MoveOut { datum_len: 1500 }, Decision::Keep]);
    assert_eq!(outcome.fits(), Ok(24 + 18 + 2 + 1004));
}

#[test]
fn the_method_of_the_column_is_asked_for() {
    let mut row = [varlena(5000, Storage::Extended).with_method(CompressionMethod::Lz4)];
    let mut asked = None;
    let outcome = TOASTER.decide(
        &mut row,
        Trigger::Length,
        |_, method| {
            asked = Some(method);
            Some(100)
        },
        |_| {},
    );
    assert_eq!((asked, outcome.fits()), (Some(CompressionMethod::Lz4), Ok(124)));
}

#[test]
fn the_null_bitmap_and_alignment_count() {
    // 1 + 2000 payload bytes behind 3 of padding; with a null the header grows from 24 to 24, and with
    // more than eight columns to 32.
    let mut row = [ToastAttribute::fixed(1, Alignment::Char), varlena(2000, Storage::External)];
    assert_eq!(Toaster::tuple_len(&row), 24 + 4 + 2004);
    let (_, steps) = decide(TOASTER, &mut row, &[]);
    assert_eq!(steps[0], Step::LeftAlone { tuple_len: 2032, threshold: 2032 });
    let mut row =
        [vec![ToastAttribute::null(); 8], vec![varlena(2000, Storage::External)]].concat();
    assert_eq!(Toaster::tuple_len(&row), 32 + 2004);
    let _ = decide(TOASTER, &mut row, &[]);
    assert!(is_out(&row[8]));
}

#[test]
fn without_a_toast_relation_values_are_only_compressed() {
    let toaster = TOASTER.without_toast_relation();
    let mut row = [varlena(9000, Storage::Extended), varlena(3000, Storage::Main)];
    let (outcome, steps) = decide(toaster, &mut row, &[Some(3000), Some(100)]);
    let expected = [Decision::Compress { datum_len: 3000 }, Decision::Compress { datum_len: 100 }];
    assert_eq!((decisions(&row), outcome.fits()), (expected.to_vec(), Ok(24 + 3100)));
    let nowhere =
        Step::NoToastRelation { pass: Pass::MoveOut, tuple_len: 24 + 3000 + 3004, goal: 2032 };
    assert!(steps.contains(&nowhere), "{steps:?}");

    let mut row = [varlena(9000, Storage::Extended)];
    let (outcome, _) = decide(toaster, &mut row, &[]);
    assert_eq!(outcome.too_big(), Some(TooBigReason::NoToastRelation));
    assert_eq!(outcome.fits(), Err(ToastError::RowTooBig { size: 9032, limit: 8160 }));
}

#[test]
fn a_compression_that_gains_nothing_counts_as_refused() {
    let mut row = [varlena(5000, Storage::Extended)];
    let (_, steps) = decide(TOASTER, &mut row, &[Some(5004)]);
    assert_eq!(row[0].decision(), Decision::MoveOut { datum_len: 5004 });
    assert!(matches!(steps[1], Step::Incompressible { attribute: 0, len: 5004, .. }));
}

/// The wish: move out anything over 100 bytes, compress it as well if it is over 2000.
#[test]
fn the_size_policy_works_on_values_and_not_on_rows() {
    let policy = SizePolicy { move_out_over: 100, compress_over: 2000 };
    let toaster = TOASTER.with_policy(policy);
    let mut row = [
        int4(),
        varlena(99, Storage::Extended),
        varlena(100, Storage::Extended),
        varlena(1996, Storage::Main),
        varlena(1997, Storage::Extended),
        varlena(3000, Storage::External),
        varlena(500, Storage::Plain),
    ];
    let (outcome, steps) = decide(toaster, &mut row, &[Some(300); 7]);
    assert_eq!(
        decisions(&row),
        [
            Decision::Keep,
            Decision::Keep,
            Decision::MoveOut { datum_len: 101 },
            Decision::MoveOut { datum_len: 2000 },
            Decision::CompressAndMoveOut { datum_len: 300 },
            Decision::MoveOut { datum_len: 3004 },
            Decision::Keep,
        ]
    );
    assert_eq!(outcome.fits(), Ok(Toaster::tuple_len(&row)));
    assert_eq!(
        steps[0].to_string(),
        "policy: column 3 moved out of line, 101 bytes to a pointer of 18: it is over 100 bytes"
    );

    // Without a TOAST relation it compresses; and rows that stay too long meet the server's rules.
    let mut row = [varlena(3000, Storage::Extended)];
    let _ = decide(toaster.without_toast_relation(), &mut row, &[Some(300)]);
    assert_eq!(row[0].decision(), Decision::Compress { datum_len: 300 });
    let wide = SizePolicy { move_out_over: 5000, compress_over: 5000 };
    let mut row = [varlena(3000, Storage::Extended)];
    let _ = decide(TOASTER.with_policy(wide), &mut row, &[Some(300)]);
    assert_eq!(row[0].decision(), Decision::Compress { datum_len: 300 });
}

#[test]
fn lengths_that_no_value_has_do_no_harm() {
    let mut row = [
        ToastAttribute::fixed(usize::MAX, Alignment::Double),
        varlena(usize::MAX, Storage::Extended),
        ToastAttribute::fixed(3, Alignment::Double),
    ];
    let (outcome, _) = decide(TOASTER, &mut row, &[]);
    assert!(outcome.fits().is_err());
    let (outcome, _) = decide(TOASTER, &mut [], &[]);
    assert_eq!(outcome.fits(), Ok(24));
}

/// Tables with hundreds of mostly null columns and the smallest target: the header grows past it, the
/// server's limit wraps around, and what would have fitted is too big.
#[test]
fn a_header_over_the_target_leaves_only_the_last_pass() {
    let toaster = TOASTER.with_tuple_target(128).unwrap();
    let wide = |columns, payload_len, storage| {
        let mut row = vec![ToastAttribute::null(); columns];
        row[0] = varlena(payload_len, storage);
        row
    };
    let mut row = wide(840, 5000, Storage::Extended);
    let (outcome, _) = decide(toaster, &mut row, &[Some(70)]);
    assert_eq!(row[0].decision(), Decision::CompressAndMoveOut { datum_len: 70 });
    assert_eq!(outcome.fits(), Ok(128 + 18));

    let mut row = wide(841, 5000, Storage::Extended);
    let (outcome, steps) = decide(toaster, &mut row, &[Some(70)]);
    assert_eq!((row[0].decision(), outcome.fits()), (Decision::Keep, Ok(136 + 5004)));
    assert_eq!(steps[1], Step::HeaderOverTarget { header_len: 136, target: 128 });

    let mut row = wide(841, 9000, Storage::Extended);
    let (outcome, _) = decide(toaster, &mut row, &[None]);
    assert_eq!(outcome.too_big(), Some(TooBigReason::HeaderOverTarget));
    assert_eq!(outcome.fits(), Err(ToastError::RowTooBig { size: 9144, limit: 8160 }));
    let mut row = wide(841, 9000, Storage::Main);
    let (outcome, _) = decide(toaster, &mut row, &[None]);
    assert_eq!(outcome.fits(), Ok(136 + 18));
}
