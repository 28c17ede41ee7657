//! Text styles. Color never carries information alone.

use ratatui::style::{Color, Modifier, Style};

/// Whether to use color.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Paint {
    /// The terminal supports color and `NO_COLOR` is not set.
    pub color: bool,
}

/// The role of a piece of text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// A figure.
    #[default]
    Plain,
    /// The name of a figure.
    Faint,
    /// A table's header.
    Title,
    /// The header of the focused table.
    FocusedTitle,
    /// The selected row.
    Selected,
    /// A warning.
    Warning,
    /// A key, a label or a heading.
    Key,
    /// Low utilization.
    Low,
    /// Medium utilization.
    Middle,
    /// High utilization.
    High,
}

impl Paint {
    /// The style of a tone.
    #[must_use]
    pub fn of(self, tone: Tone) -> Style {
        let plain = Style::new();
        let colored = |color| if self.color { plain.fg(color) } else { plain };
        match tone {
            Tone::Plain => plain,
            Tone::Faint => plain.add_modifier(Modifier::DIM),
            Tone::Title => plain.add_modifier(Modifier::UNDERLINED),
            Tone::FocusedTitle => plain.add_modifier(Modifier::UNDERLINED | Modifier::BOLD),
            Tone::Selected => plain.add_modifier(Modifier::REVERSED),
            Tone::Warning => colored(Color::Yellow).add_modifier(Modifier::BOLD),
            Tone::Key => plain.add_modifier(Modifier::BOLD),
            Tone::Low => colored(Color::Green),
            Tone::Middle => colored(Color::Yellow),
            Tone::High => colored(Color::Red),
        }
    }
}
