//! One plot a metric: a line a case, a dot a contender, on a logarithmic scale.
//!
//! ```text
//!   case        |      o----O--------o     |      O ours   o others
//!   other case  |   o----O----o            |
//!               +---|-------|-------|------+
//!                  100    1 000  10 000  unit
//! ```
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::table::{Group, figure};

const WIDTH: u32 = 920;
const LABEL_WIDTH: i32 = 250;
const RIGHT_MARGIN: i32 = 40;
const TOP: i32 = 40;
const LINE_HEIGHT: i32 = 26;
const BOTTOM: i32 = 46;
/// What the drawing library turns into letters of 13 pixels.
const FONT_HEIGHT: i32 = 16;

const INK: RGBColor = RGBColor(0x1f, 0x29, 0x33);
const FAINT: RGBColor = RGBColor(0xe3, 0xe7, 0xeb);
const GREY: RGBColor = RGBColor(0x6b, 0x77, 0x85);
const OURS: RGBColor = RGBColor(0x0b, 0x6e, 0x99);
const PEERS: [RGBColor; 6] = [
    RGBColor(0xd9, 0x5f, 0x02),
    RGBColor(0x7a, 0x5b, 0xb5),
    RGBColor(0x4d, 0x9a, 0x2f),
    RGBColor(0xc2, 0x2e, 0x6d),
    RGBColor(0xa0, 0x7a, 0x12),
    RGBColor(0x55, 0x60, 0x6b),
];

/// Draws groups of one metric and unit; `peers` gives every peer its colour.
///
/// # Errors
/// When the drawing library says so.
pub(super) fn draw(groups: &[Group<'_>], peers: &[&str], unit: &str) -> Result<String> {
    let lines = i32::try_from(groups.len())?;
    let bottom = TOP + lines * LINE_HEIGHT;
    let height = u32::try_from(bottom + BOTTOM)?;
    let axis = Axis::over(groups);
    let mut svg = String::new();
    {
        let mut canvas = Canvas { svg: SVGBackend::with_string(&mut svg, (WIDTH, height)) };
        canvas.legend(peers)?;
        for (value, labelled) in axis.ticks() {
            let x = axis.place(value);
            canvas.line((x, TOP), (x, bottom), FAINT)?;
            if labelled {
                canvas.text(&figure(value), (x, bottom + 8), HPos::Center, VPos::Top, GREY)?;
            }
        }
        canvas.text(unit, (axis_end(), bottom + 26), HPos::Right, VPos::Top, GREY)?;
        for (line, group) in (0..).zip(groups) {
            let y = TOP + line * LINE_HEIGHT + LINE_HEIGHT / 2;
            canvas.case(group, peers, &axis, y)?;
        }
        canvas.svg.present().map_err(failed)?;
    }
    Ok(svg)
}

/// The right end of the plot, in pixels.
fn axis_end() -> i32 {
    i32::try_from(WIDTH).unwrap_or(i32::MAX) - RIGHT_MARGIN
}

/// From figures to pixels.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// The whole powers and halves around what there is to draw.
    fn over(groups: &[Group<'_>]) -> Self {
        let rows = groups.iter().flat_map(|group| &group.rows);
        let peers = rows.filter_map(|row| row.peer);
        let figures = groups.iter().filter_map(|group| group.ours).chain(peers);
        let figures = figures.filter(|figure| figure.is_finite() && *figure > 0.0);
        let (low, high) = figures
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return Self { low: 1.0, high: 10.0 };
        }
        Self { low: low / 1.25, high: high * 1.25 }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a pixel of a plot 920 wide")]
    fn place(&self, value: f64) -> i32 {
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        let width = f64::from(axis_end() - LABEL_WIDTH);
        LABEL_WIDTH + (share.clamp(0.0, 1.0) * width).round() as i32
    }

    /// 1, 2 and 5 times the powers of ten in range; over a wide range only the powers are labelled.
    fn ticks(&self) -> Vec<(f64, bool)> {
        let wide = self.high / self.low > 200.0;
        let mut power = 10.0_f64.powf(self.low.log10().floor());
        let mut ticks = Vec::new();
        while power <= self.high {
            for factor in [1.0, 2.0, 5.0] {
                let value = power * factor;
                if (self.low..=self.high).contains(&value) {
                    ticks.push((value, factor == 1.0 || !wide));
                }
            }
            power *= 10.0;
        }
        ticks
    }
}

/// The few shapes a plot is made of.
struct Canvas<'a> {
    svg: SVGBackend<'a>,
}

impl Canvas<'_> {
    fn legend(&mut self, peers: &[&str]) -> Result<()> {
        let mut x = LABEL_WIDTH;
        for (name, colour) in std::iter::once(("ours", OURS)).chain(coloured(peers)) {
            self.dot((x + 6, 16), colour, name == "ours")?;
            self.text(name, (x + 17, 16), HPos::Left, VPos::Center, INK)?;
            x += 40 + i32::try_from(name.len())? * 8;
        }
        Ok(())
    }

    fn case(&mut self, group: &Group<'_>, peers: &[&str], axis: &Axis, y: i32) -> Result<()> {
        let label = (LABEL_WIDTH - 14, y);
        self.text(group.case, label, HPos::Right, VPos::Center, INK)?;
        let places: Vec<_> = coloured(peers)
            .filter_map(|(name, colour)| {
                let row = group.rows.iter().find(|row| row.peer_name.as_deref() == Some(name))?;
                Some((axis.place(row.peer?), colour))
            })
            .collect();
        let ours = group.ours.map(|figure| axis.place(figure));
        let every = || places.iter().map(|place| place.0).chain(ours);
        if let Some((low, high)) = every().min().zip(every().max()) {
            self.line((low, y), (high, y), GREY)?;
        }
        for (x, colour) in places {
            self.dot((x, y), colour, false)?;
        }
        ours.map_or(Ok(()), |x| self.dot((x, y), OURS, true))
    }

    fn dot(&mut self, at: (i32, i32), colour: RGBColor, ours: bool) -> Result<()> {
        let size = if ours { 7 } else { 5 };
        self.svg.draw_circle(at, size + 1, &WHITE, true).map_err(failed)?;
        self.svg.draw_circle(at, size, &colour, true).map_err(failed)
    }

    fn line(&mut self, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> Result<()> {
        self.svg.draw_line(from, to, &colour).map_err(failed)
    }

    fn text(
        &mut self,
        text: &str,
        at: (i32, i32),
        across: HPos,
        up: VPos,
        colour: RGBColor,
    ) -> Result<()> {
        let style = TextStyle::from(("sans-serif", FONT_HEIGHT).into_font())
            .color(&colour)
            .pos(Pos::new(across, up));
        self.svg.draw_text(text, &style, at).map_err(failed)
    }
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("plot: {error}")
}

fn coloured<'a>(peers: &'a [&'a str]) -> impl Iterator<Item = (&'a str, RGBColor)> {
    peers.iter().copied().zip(PEERS.into_iter().cycle())
}
