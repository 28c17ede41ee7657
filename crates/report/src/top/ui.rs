//! What the user has selected.

/// Settings of the screen.
#[derive(Debug, Clone, Default)]
pub struct Ui {
    /// The table with the keyboard focus.
    pub focus: Panel,
    /// The focused table fills the screen.
    pub zoomed: bool,
    /// Settings of each table, by [`Panel::index`].
    pub tables: [TableUi; Panel::ALL.len()],
    /// Show partitions.
    pub partitions: bool,
    /// Show idle devices.
    pub idle: bool,
    /// How threads are grouped.
    pub grouping: Grouping,
    /// The page shown.
    pub page: Page,
    /// Lines of a text page scrolled off the top.
    pub scrolled: usize,
    /// Text typed after `g`.
    pub prompt: Option<String>,
    /// Message of the last command.
    pub message: Option<String>,
}

/// Settings of one table.
#[derive(Debug, Clone, Default)]
pub struct TableUi {
    /// Key of the selected row; `None` selects the first.
    pub selected: Option<String>,
    /// Sort column; `None` for the table's default.
    pub sort: Option<usize>,
    /// Reverse the sort order.
    pub reversed: bool,
}

/// A table of the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Panel {
    /// Block devices.
    #[default]
    Disks,
    /// Threads by activity.
    Threads,
    /// CPU time by kernel layer.
    Layers,
    /// io_uring instances.
    Rings,
}

impl Panel {
    /// All panels, in screen order.
    pub const ALL: [Self; 4] = [Self::Disks, Self::Threads, Self::Layers, Self::Rings];

    /// Its index in [`Panel::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["disks", "threads", "layers", "rings"][self.index()]
    }

    /// The panel `by` places further in screen order, cyclically.
    #[must_use]
    pub fn further(self, by: usize) -> Self {
        Self::ALL[(self.index() + by) % Self::ALL.len()]
    }
}

/// How threads are grouped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Grouping {
    /// Name, state, system call and wait channel.
    #[default]
    Activity,
    /// Name and state.
    State,
    /// Name.
    Name,
    /// TID: each thread separately.
    Thread,
}

impl Grouping {
    /// The next one, cyclically.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Activity => Self::State,
            Self::State => Self::Name,
            Self::Name => Self::Thread,
            Self::Thread => Self::Activity,
        }
    }
}

/// What the screen shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Page {
    /// All tables.
    #[default]
    Tables,
    /// The keys.
    Help,
    /// Unavailable sources and sampling overhead.
    Missing,
    /// Details of one table row, by its key.
    Detail(Panel, String),
}

impl Panel {
    /// The settings of this table.
    #[must_use]
    pub fn of(self, ui: &Ui) -> &TableUi {
        &ui.tables[self.index()]
    }

    /// The settings of this table, mutable.
    pub fn of_mut(self, ui: &mut Ui) -> &mut TableUi {
        &mut ui.tables[self.index()]
    }
}
