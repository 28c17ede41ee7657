//! How things are set apart. All of it can be understood without colour.

use ratatui::style::{Color, Modifier, Style};

/// Whether there are colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Paint {
    /// The terminal has colours and the user has not forbidden them (`NO_COLOR`).
    pub color: bool,
}

/// What something is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// A figure.
    #[default]
    Plain,
    /// What a figure is called.
    Faint,
    /// The names of a table's columns.
    Title,
    /// The same, where keys go to this table.
    FocusedTitle,
    /// The row that keys act on.
    Selected,
    /// What deserves a look.
    Warning,
    /// A key that can be pressed.
    Key,
    /// Little of what there is is used.
    Low,
    /// Much of it is used.
    Middle,
    /// Nearly all of it is used.
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
