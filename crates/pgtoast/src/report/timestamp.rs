//! A moment, as reports print it.
use core::fmt;

/// A moment in seconds since 1970. It prints as `2026-11-30T18:25:03Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0.div_euclid(86_400), self.0.rem_euclid(86_400));
        // Years are counted from a first of March, so that the leap day is the last day of one, and in
        // periods of 400, which all have the same number of days.
        let shifted = days.saturating_add(719_468);
        let (period, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_period = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year_of_period + year_of_period / 4 - year_of_period / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_period + period * 400 + i64::from(month <= 2);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_print_as_the_calendar_has_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Timestamp(seconds).to_string(), text);
        }
    }

    #[test]
    fn no_number_of_seconds_is_too_large_to_print() {
        for seconds in [i64::MIN, i64::MAX] {
            assert!(Timestamp(seconds).to_string().ends_with('Z'));
        }
    }
}
