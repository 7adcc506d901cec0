//! Transaction ids of 64 bits, which never wrap: the low half is the id that tuples hold, the high
//! half counts the rounds of the circle.
use pgtoast_base::Xid;

/// The id that tuples hold.
#[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
pub(super) fn xid(full: u64) -> Xid {
    Xid::new(full as u32)
}

/// The one that is given out after `full`: the three special ids of each round are passed over.
pub(super) fn after(full: u64) -> u64 {
    at_least(full + 1)
}

/// The first from `full` on that can be given out.
pub(super) fn at_least(full: u64) -> u64 {
    let special = Xid::FIRST_NORMAL.get().saturating_sub(xid(full).get());
    full + u64::from(special)
}

/// The last before `full` that can be given out. There must be one.
pub(super) fn before(full: u64) -> u64 {
    let last = full - 1;
    if xid(last).is_normal() { last } else { last - u64::from(xid(last).get()) - 1 }
}

/// The one behind `xid` that is nearest to `reference`; 0 if that would be before the first round.
pub(super) fn near(reference: u64, xid: Xid) -> u64 {
    let distance = xid.get().wrapping_sub(self::xid(reference).get()).cast_signed();
    reference.saturating_add_signed(distance.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_special_ids_of_a_round_are_passed_over() {
        let round = 1 << 32;
        assert_eq!(after(round - 2), round - 1);
        assert_eq!(after(round - 1), round + 3);
        assert_eq!(at_least(0), 3);
        assert_eq!(at_least(round + 2), round + 3);
        assert_eq!(at_least(round + 3), round + 3);
        assert_eq!(before(4), 3);
        assert_eq!(before(round), round - 1);
        assert_eq!(before(round + 3), round - 1);
        assert_eq!(before(round + 4), round + 3);
    }

    #[test]
    fn an_id_stands_for_the_nearest_of_its_full_ones() {
        let round = 1 << 32;
        assert_eq!(near(round + 10, Xid::new(10)), round + 10);
        assert_eq!(near(round + 10, Xid::new(4_294_967_290)), round - 6);
        assert_eq!(near(round - 6, Xid::new(10)), round + 10);
        assert_eq!(near(10, Xid::new(4_294_967_290)), 0);
    }
}
