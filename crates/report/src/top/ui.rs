//! What the user of the view has chosen to see.

/// The choices.
#[derive(Debug, Clone, Default)]
pub struct Ui {
    /// The table that keys act on.
    pub focus: Panel,
    /// The table that has the screen for itself.
    pub zoomed: bool,
    /// What each table shows of itself, by [`Panel::index`].
    pub tables: [TableUi; Panel::ALL.len()],
    /// Partitions are shown too.
    pub partitions: bool,
    /// Devices that do nothing are shown too.
    pub idle: bool,
    /// How threads are put into groups.
    pub grouping: Grouping,
    /// What has the screen instead of the tables.
    pub page: Page,
    /// Lines of a page that are above the screen.
    pub scrolled: usize,
    /// What is being typed after `g`.
    pub prompt: Option<String>,
    /// What came of the last key, where it cannot be seen otherwise.
    pub message: Option<String>,
}

/// What is chosen in one table.
#[derive(Debug, Clone, Default)]
pub struct TableUi {
    /// Key of the selected row; the first one where there is none.
    pub selected: Option<String>,
    /// The column sorted by; the table's own choice where there is none.
    pub sort: Option<usize>,
    /// Whether the order is turned round.
    pub reversed: bool,
}

/// A table of the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Panel {
    /// Block devices.
    #[default]
    Disks,
    /// What threads do.
    Threads,
    /// Where processor time goes.
    Layers,
    /// io_uring instances.
    Rings,
}

impl Panel {
    /// In the order of the screen.
    pub const ALL: [Self; 4] = [Self::Disks, Self::Threads, Self::Layers, Self::Rings];

    /// Its place among all.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["disks", "threads", "layers", "rings"][self.index()]
    }

    /// The one that is so many further, round and round.
    #[must_use]
    pub fn further(self, by: usize) -> Self {
        Self::ALL[(self.index() + by) % Self::ALL.len()]
    }
}

/// What tells groups of threads apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Grouping {
    /// Name, state, system call and wait channel.
    #[default]
    Doing,
    /// Name and state.
    State,
    /// Name.
    Name,
    /// Each thread for itself.
    Thread,
}

impl Grouping {
    /// The next one, round and round.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Doing => Self::State,
            Self::State => Self::Name,
            Self::Name => Self::Thread,
            Self::Thread => Self::Doing,
        }
    }
}

/// What has the screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Page {
    /// All tables.
    #[default]
    Tables,
    /// The keys.
    Help,
    /// What cannot be seen, and what watching costs.
    Missing,
    /// One row of a table, by its key, in full.
    Detail(Panel, String),
}

impl Panel {
    /// The choices for this table.
    #[must_use]
    pub fn of(self, ui: &Ui) -> &TableUi {
        &ui.tables[self.index()]
    }

    /// The choices for this table, to be changed.
    pub fn of_mut(self, ui: &mut Ui) -> &mut TableUi {
        &mut ui.tables[self.index()]
    }
}
