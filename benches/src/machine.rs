//! Where, when and with what a run was made. A figure never appears without it.
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// The circumstances of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor, as it names itself.
    pub cpu: String,
    /// How many of its cores this process may use.
    pub cores: usize,
    /// Those of its vector extensions that our code could use.
    pub features: Vec<&'static str>,
    /// Architecture and operating system, with the kernel's release where it tells.
    pub os: String,
    /// When, in UTC.
    pub date: String,
    /// The command line.
    pub command: String,
    /// The compiler.
    pub rustc: &'static str,
    /// Ours and the peers' versions by name; a peer that was not found is not among them.
    pub versions: BTreeMap<String, String>,
}

impl Machine {
    /// This one, now.
    #[must_use]
    pub fn current() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let kernel = read("/proc/sys/kernel/osrelease");
        let os = format!("{} {} {}", std::env::consts::ARCH, std::env::consts::OS, kernel.trim());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self {
            cpu: cpu_model(&read("/proc/cpuinfo")).unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            features: features(),
            os: os.trim().to_owned(),
            date: utc(now),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            rustc: env!("BENCH_RUSTC_VERSION"),
            versions: crate::peers::versions(),
        }
    }
}

fn cpu_model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<&'static str> {
    let mut found = Vec::new();
    macro_rules! note {
        ($($feature:tt)*) => {
            $(if std::arch::is_x86_feature_detected!($feature) { found.push($feature); })*
        };
    }
    note!("sse4.1" "sse4.2" "popcnt" "bmi2" "avx" "avx2" "avx512f" "avx512bw" "avx512vl" "avx512vbmi");
    found
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<&'static str> {
    let mut found = Vec::new();
    macro_rules! note {
        ($($feature:tt)*) => {
            $(if std::arch::is_aarch64_feature_detected!($feature) { found.push($feature); })*
        };
    }
    note!("neon" "crc" "sve" "sve2");
    found
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<&'static str> {
    Vec::new()
}

/// Seconds since 1970 as `2026-11-30 12:34 UTC`.
///
/// Years are counted from March, so that the leap day is a year's last and months have a fixed
/// pattern of lengths: 153 days every five of them.
fn utc(seconds: u64) -> String {
    const DAYS_0000_03_01_TO_1970: u64 = 719_468;
    let (days, minutes) = (seconds / 86_400, seconds % 86_400 / 60);
    let days = days + DAYS_0000_03_01_TO_1970;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_on_both_sides_of_a_leap_day() {
        for (seconds, date) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), date);
        }
    }

    #[test]
    fn the_processor_is_named_by_the_first_model_line() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n\nmodel name\t: other\n";
        assert_eq!(cpu_model(cpuinfo), Some("Some CPU @ 3 GHz"));
        assert_eq!(cpu_model("processor : 0"), None);
    }
}
