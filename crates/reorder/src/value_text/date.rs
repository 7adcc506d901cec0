//! Dates and times of day, in ISO style.
use alloc::format;
use alloc::string::String;

/// Days from the first of March of year 0 to the first of January of 2000, where servers count from.
const EPOCH_DAYS: i64 = 730_425;
const MICROS_OF_DAY: i64 = 86_400_000_000;

pub(super) fn append_date(days: i32, text: &mut String) {
    match days {
        i32::MIN => text.push_str("-infinity"),
        i32::MAX => text.push_str("infinity"),
        days => {
            let (date, is_bc) = date_of(days.into());
            text.push_str(&date);
            text.push_str(if is_bc { " BC" } else { "" });
        }
    }
}

pub(super) fn append_timestamp(micros: i64, text: &mut String) {
    match micros {
        i64::MIN => text.push_str("-infinity"),
        i64::MAX => text.push_str("infinity"),
        micros => {
            let (days, micros) =
                (micros.div_euclid(MICROS_OF_DAY), micros.rem_euclid(MICROS_OF_DAY));
            let (date, is_bc) = date_of(days);
            let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
            let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            text.push_str(&format!("{date} {hour:02}:{minute:02}:{second:02}"));
            if micros != 0 {
                text.push_str(format!(".{micros:06}").trim_end_matches('0'));
            }
            text.push_str(if is_bc { " BC" } else { "" });
        }
    }
}

/// A day, counted from 2000-01-01, and whether its year is before 1.
fn date_of(days: i64) -> (String, bool) {
    // Years here begin in March, so that a leap day is a year's last.
    let days = days + EPOCH_DAYS;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leaps = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let is_bc = year <= 0;
    let year = if is_bc { 1 - year } else { year };
    (format!("{year:04}-{month:02}-{day:02}"), is_bc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_print_as_a_server_prints_them() {
        for (days, expected) in [
            (0, "2000-01-01"),
            (-1, "1999-12-31"),
            (59, "2000-02-29"),
            (60, "2000-03-01"),
            (9831, "2026-12-01"),
            (-730_119, "0001-01-01"),
            (-730_120, "0001-12-31 BC"),
            (i32::MAX, "infinity"),
        ] {
            let mut text = String::new();
            append_date(days, &mut text);
            assert_eq!(text, expected, "{days}");
        }
        let mut text = String::new();
        append_timestamp(-1_500_000, &mut text);
        assert_eq!(text, "1999-12-31 23:59:58.5");
    }
}
