//! Floats in the shortest form that reads back the same.
use alloc::format;
use alloc::string::String;

/// Powers of ten from which on a server writes an exponent.
const FIRST_WITH_EXPONENT_F32: i32 = 6;
const FIRST_WITH_EXPONENT_F64: i32 = 15;
/// And below which.
const LAST_WITHOUT: i32 = -4;

pub(super) fn append_f32(value: f32, text: &mut String) {
    let shortest = format!("{:e}", value.abs());
    append(value.is_sign_negative(), f64::from(value), &shortest, FIRST_WITH_EXPONENT_F32, text);
}

pub(super) fn append_f64(value: f64, text: &mut String) {
    let shortest = format!("{:e}", value.abs());
    append(value.is_sign_negative(), value, &shortest, FIRST_WITH_EXPONENT_F64, text);
}

/// `shortest` is like `1.25e-7`.
fn append(is_negative: bool, value: f64, shortest: &str, first: i32, text: &mut String) {
    if value.is_nan() {
        text.push_str("NaN");
        return;
    }
    if is_negative {
        text.push('-');
    }
    if value.is_infinite() {
        text.push_str("Infinity");
        return;
    }
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(LAST_WITHOUT..first).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        text.push_str(&format!("{mantissa}e{sign}{:02}", exponent.abs()));
        return;
    }
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let point = exponent + 1;
    match usize::try_from(point) {
        Ok(point) if point > 0 => {
            let whole = digits.get(..point.min(digits.len())).unwrap_or_default();
            text.push_str(whole);
            text.extend(core::iter::repeat_n('0', point - whole.len()));
            if let Some(rest) = digits.get(point..).filter(|rest| !rest.is_empty()) {
                text.push('.');
                text.push_str(rest);
            }
        }
        _ => {
            text.push_str("0.");
            text.extend(core::iter::repeat_n('0', point.unsigned_abs() as usize));
            text.push_str(&digits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_a_server_prints_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (100.0, "100"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e15, "1e+15"),
            (1.25e300, "1.25e+300"),
            (-1e-7, "-1e-07"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            let mut text = String::new();
            append_f64(value, &mut text);
            assert_eq!(text, expected);
        }
        for (value, expected) in [(1e6_f32, "1e+06"), (123_456.0, "123456"), (0.1, "0.1")] {
            let mut text = String::new();
            append_f32(value, &mut text);
            assert_eq!(text, expected);
        }
    }
}
