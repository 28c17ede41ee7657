//! What the user has selected.

#[derive(Debug, Clone, Default)]
pub struct Ui {
    pub focus: Panel,
    pub zoomed: bool,
    /// Settings of each table, by [`Panel::index`].
    pub tables: [TableUi; Panel::ALL.len()],
    pub partitions: bool,
    pub idle: bool,
    pub grouping: Grouping,
    pub page: Page,
    /// Lines of a text page scrolled off the top.
    pub scrolled: usize,
    pub prompt: Option<String>,
    pub message: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub struct TableUi {
    /// Key of the selected row; `None` selects the first.
    pub selected: Option<String>,
    /// Sort column; `None` for the table's default.
    pub sort: Option<usize>,
    pub reversed: bool,
}

fathom_model::named! {
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum Panel {
        #[default]
        Disks = "disks",
        Threads = "threads",
        Layers = "layers",
        Rings = "rings",
    }
}

impl Panel {
    pub fn index(self) -> usize {
        self as usize
    }

    /// The panel `by` places further in screen order, cyclically.
    pub fn further(self, by: usize) -> Self {
        Self::ALL[(self.index() + by) % Self::ALL.len()]
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Grouping {
    #[default]
    Activity,
    State,
    Name,
    Thread,
}

impl Grouping {
    pub fn next(self) -> Self {
        match self {
            Self::Activity => Self::State,
            Self::State => Self::Name,
            Self::Name => Self::Thread,
            Self::Thread => Self::Activity,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Page {
    #[default]
    Tables,
    Help,
    Missing,
    Detail(Panel, String),
}

impl Panel {
    pub fn of(self, ui: &Ui) -> &TableUi {
        &ui.tables[self.index()]
    }

    pub fn of_mut(self, ui: &mut Ui) -> &mut TableUi {
        &mut ui.tables[self.index()]
    }
}
